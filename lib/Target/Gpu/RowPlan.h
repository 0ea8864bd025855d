//===- RowPlan.h - Launch plan of a row program -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Selects the form of a row kernel from the program and the alignments of its
// arguments. RowKernel.cpp describes the forms.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_ROWPLAN_H
#define KILN_LIB_TARGET_GPU_ROWPLAN_H

#include "kiln/Target/Gpu/Kernels.h"

namespace kiln::gpu {

/// Columns per column block, and partial results per row reduction.
constexpr int64_t kBlock = 64;
/// Maximum columns of a row that is cached in registers. A thread then has 16
/// vectors of each operand.
constexpr int64_t kCachedColumns = 1024;
/// Maximum registers that a thread uses for cached rows. A thread has 255
/// registers.
constexpr int64_t kCacheRegisters = 96;
/// Maximum shared memory for column sums and for per-column values. Larger
/// sizes would reduce occupancy.
constexpr int64_t kPartialBytes = 24 * 1024, kStagedBytes = 16 * 1024;

/// Returns true if a node is a per-column load, whose value does not depend on
/// the row.
bool isPerColumn(const row::Node &node);
bool hasLoad(const row::RowProgram &program, row::Access access);
bool hasStore(const row::RowProgram &program, row::StoreKind kind);

/// The form of a row kernel (RowKernel.cpp describes the forms) and its
/// parameters. A comment that begins with "Form" or "Forms" describes a member
/// that only the named forms use.
struct RowPlan {
  enum Form { Flat, Scalar, Split, Rows, Kept } form;
  int64_t width = 1;  ///< Adjacent columns per vector of a thread.
  int64_t spread = 1; ///< Form Split: vectors per thread, 16 columns apart.
  /// Groups per block; in the form Kept, rows that a block processes at a time.
  int64_t groups = 1;
  int64_t rowsPerGroup = 1; ///< Rows that a group processes one by one.
  /// Form Split: rows that a thread loads completely before its first store.
  int64_t rowsAtOnce = 1;
  /// Form Split: all groups of a thread block process the same columns and read
  /// per-column values from shared memory.
  bool sharesColumns = false;
  /// Form Rows: column blocks per tile, or 0 if each group processes its own
  /// chunk. If not 0, all groups of a thread block process rows of one chunk.
  /// After each tile, they synchronize and add their column sums in row order.
  int64_t tileBlocks = 0;
  /// Form Rows: column blocks that a thread loads before it combines any value.
  int64_t blocksAtOnce = 4;
  /// Form Rows: values that depend only on the column are recomputed for each
  /// row, so that they take no registers between rows.
  bool hidesColumns = false;
  /// Form Rows: each random counter is evaluated by only one of the threads
  /// that need its words, and these threads exchange the words.
  bool sharesRandom = false;
  /// Forms Rows and Kept: alignment of column blocks in elements. The first
  /// column block starts at the last multiple of this value that does not
  /// exceed the index of the row's first element in memory. If 1, the first
  /// column block starts with the row.
  int64_t blockAlignment = 1;
  int64_t rowStride = 0; ///< Common row stride if blockAlignment > 1.
  /// Form Kept: nodes whose values in the current row are cached in shared
  /// memory.
  llvm::SmallVector<row::NodeId> kept;
  /// Form Kept: number of tiles at the end of a row that are in registers.
  int64_t registerTiles = 0;
  /// Maximum shared memory for per-column values.
  int64_t stagedBytes = kStagedBytes;
  KernelLaunch launch; ///< Launch geometry; sharedBytes is not set.
};

RowPlan planRows(const RowShape &shape, Alignments alignments,
                 const row::SweepPlan &sweeps);

/// Plans a kernel for few long rows that are not cached. Returns false if the
/// program does not suit such a kernel. See SplitRows.cpp.
bool planSplitRows(RowPlan &plan, const RowShape &shape,
                   const row::SweepPlan &sweeps);
/// Plans a kernel that caches long rows in shared memory. Returns false if the
/// program does not suit such a kernel. See CachedRows.cpp.
bool planCachedRows(RowPlan &plan, const RowShape &shape, Alignments alignments,
                    const row::SweepPlan &sweeps);
/// Returns the type in which shared memory holds the values of node `id`.
row::Type keptTypeOf(const row::RowProgram &program,
                     const row::SweepPlan &sweeps, row::NodeId id);

/// Sets RowPlan::blockAlignment for long rows that start at arbitrary
/// addresses, provided that the rows of all tensors start at the same offset
/// within a vector. If `staysByColumn`, per-column values are exempt from this
/// condition, since they are then in shared memory.
void alignBlocks(RowPlan &plan, const RowShape &shape, Alignments alignments,
                 bool staysByColumn);
bool hasNarrowRows(const RowShape &shape);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_ROWPLAN_H
