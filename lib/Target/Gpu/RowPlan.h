//===- RowPlan.h - How a gpu's threads share a row program ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// RowKernel.cpp says what the forms of a kernel are; here one is chosen, by the
// program and by where its arguments lie.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_ROWPLAN_H
#define KILN_LIB_TARGET_GPU_ROWPLAN_H

#include "kiln/Target/Gpu/Kernels.h"

namespace kiln::gpu {

/// Columns of a block, and partial results of a row reduction.
constexpr int64_t kBlock = 64;
/// Of a row that is held in registers: 16 vectors per operand.
constexpr int64_t kCachedColumns = 1024;
/// For that, of the 255 that a thread has at most.
constexpr int64_t kCacheRegisters = 96;
/// Shared memory for sums down columns, and for values per column: more would
/// leave few threads.
constexpr int64_t kPartialBytes = 24 * 1024, kStagedBytes = 16 * 1024;

/// Whether a node is read once per column, whatever the row.
bool isPerColumn(const row::Node &node);
bool hasLoad(const row::RowProgram &program, row::Access access);
bool hasStore(const row::RowProgram &program, row::StoreKind kind);

struct RowPlan {
  enum Form { Flat, Scalar, Split, Rows, Kept } form;
  int64_t width = 1;  ///< neighbouring columns of a thread
  int64_t spread = 1; ///< Split: of which it has so many, 16 columns apart
  int64_t groups = 1; ///< of a block; Kept: rows at a time
  int64_t rowsPerGroup = 1; ///< Split, Rows: that a group works on in turn
  /// Split: rows of which a thread loads everything before it stores one.
  int64_t rowsAtOnce = 1;
  /// Split: all groups of a block work on the same columns, and get values per
  /// column by shared memory.
  bool sharesColumns = false;
  /// Rows: so many blocks of columns after which all groups of a block, which
  /// work on rows of one chunk, meet and add up what they have, in the rows'
  /// order; 0: each group has a chunk of its own.
  int64_t tileBlocks = 0;
  /// Rows: blocks of columns of which a thread loads everything before it
  /// combines anything.
  int64_t blocksAtOnce = 4;
  /// Rows: what depends on columns alone is not kept from row to row, which
  /// would take the registers that a row needs.
  bool hidesColumns = false;
  /// Rows: threads that need words of the same random numbers compute a part of
  /// them each.
  bool sharesRandom = false;
  /// Rows: a group's first block begins where the number of the element in
  /// memory is a multiple of this, at or before the row; 1: with the row.
  int64_t blockAlignment = 1;
  int64_t rowStride = 0; ///< of all that is accessed so
  /// Kept: the nodes whose values of a row are in shared memory.
  llvm::SmallVector<row::NodeId> kept;
  int64_t registerTiles = 0; ///< Kept: of a row, at its end, in registers
  /// Of shared memory, at most, for values per column.
  int64_t stagedBytes = kStagedBytes;
  KernelLaunch launch; ///< all but the shared memory
};

RowPlan planRows(const RowShape &shape, Alignments alignments,
                 const row::SweepPlan &sweeps);

/// Whether there are few rows, of many columns of which none is kept, and how
/// to work on them.
bool planSplitRows(RowPlan &plan, const RowShape &shape,
                   const row::SweepPlan &sweeps);
/// Whether long rows can be kept in shared memory, and how.
bool planCachedRows(RowPlan &plan, const RowShape &shape, Alignments alignments,
                    const row::SweepPlan &sweeps);
/// Of the values of node `id` in shared memory.
row::Type keptTypeOf(const row::RowProgram &program,
                     const row::SweepPlan &sweeps, row::NodeId id);

/// Chooses RowPlan::blockAlignment for long rows that begin anywhere: what a
/// thread accesses has to be at the same place of a vector everywhere, but for
/// values per column if `staysByColumn`: those are in shared memory.
void alignBlocks(RowPlan &plan, const RowShape &shape, Alignments alignments,
                 bool staysByColumn);
bool hasNarrowRows(const RowShape &shape);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_ROWPLAN_H
