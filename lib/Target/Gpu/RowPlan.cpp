//===- RowPlan.cpp - Launch plan of a row program -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The choices in this file do not change the bits of any result.
//
//===----------------------------------------------------------------------===//

#include "RowPlan.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"

#include "DeviceFacts.h"
#include "GpuBuilder.h"

#include "llvm/ADT/bit.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

using row::Access;
using row::Kind;
using row::RowProgram;
using row::Space;
using row::StoreKind;

bool isPerColumn(const row::Node &node) {
  return node.kind == Kind::Load && node.access == Access::PerColumn;
}

bool hasLoad(const RowProgram &program, Access access) {
  return llvm::any_of(program.nodes, [&](const row::Node &node) {
    return node.kind == Kind::Load && node.access == access;
  });
}

bool hasStore(const RowProgram &program, StoreKind kind) {
  return llvm::any_of(program.stores, [&](const row::Store &store) {
    return store.kind == kind;
  });
}

namespace {

constexpr int64_t kThreads = 256;
/// Number of groups of threads that keeps a large GPU busy.
constexpr int64_t kWantedGroups = 4096;
constexpr int64_t kMostRows = 24;
/// A flat kernel treats all rows as one vector. If it computes a sum of slices
/// of a tensor (kiln.reduce_combine) and would have fewer than kFewThreads
/// threads, each thread processes only one or two elements, and blocks have
/// kSmallBlock threads.
constexpr int64_t kFewThreads = 1 << 15, kSmallBlock = 64;
/// Number of vectors that each thread of a split kernel processes, that is,
/// RowPlan::rowsPerGroup rows of RowPlan::spread vectors each. In a split
/// kernel, a group of threads processes only some columns of its rows. Applies
/// to kernels without column sums in which rows have elements narrower than f32
/// and the groups of a thread block share per-column values.
constexpr int64_t kNarrowRows = 4;
/// Random words per Philox counter. The four words are for columns c, c + 16,
/// c + 32 and c + 48 of a row.
constexpr int64_t kRandomWords = 4;
/// Loads in flight per thread.
constexpr int64_t kLoadsAtOnce = 8;
/// Bytes per memory sector.
constexpr int64_t kSectorBytes = 32;
/// Maximum column blocks per tile, such that a tile has at most one column per
/// thread.
constexpr int64_t kMostTileBlocks = kThreads / kBlock;

RowPlan::Form formOf(const RowShape &shape, const row::SweepPlan &sweeps) {
  const RowProgram &program = shape.program;
  if (program.flat && shape.isDense())
    return RowPlan::Flat;
  if (sweeps.sweeps == 0)
    return RowPlan::Scalar;
  bool reduces = llvm::any_of(program.nodes, [](const row::Node &node) {
    return node.kind == Kind::ReduceSum || node.kind == Kind::ReduceMax;
  });
  bool looksAtRow =
      hasLoad(program, Access::RowElement) || hasStore(program, StoreKind::Row);
  return reduces || looksAtRow ? RowPlan::Rows : RowPlan::Split;
}

/// Calls `body` for all tensors that are accessed element by element, with the
/// index of the argument, the element type in memory and the row stride in
/// elements.
void forEachElement(
    const RowShape &shape,
    function_ref<void(unsigned arg, row::Type type, int64_t stride)> body) {
  const RowProgram &program = shape.program;
  size_t numOperands = shape.layouts.size() - program.stores.size();
  for (const row::Node &node : program.nodes)
    if (node.kind == Kind::Load && node.space == Space::Full)
      body(node.operand, node.stored,
           node.access == Access::Identity
               ? shape.layouts[node.operand].rowStride
               : program.cols);
  for (const row::Store &store : program.stores)
    if (store.kind == StoreKind::Full)
      body(numOperands + store.result, store.stored,
           shape.layouts[numOperands + store.result].rowStride);
}

} // namespace

/// Returns true if rows have elements narrower than f32. Per-column values are
/// f32 even then, so loading one takes more bytes than loading an element of
/// the row.
bool hasNarrowRows(const RowShape &shape) {
  bool isNarrow = false;
  forEachElement(shape, [&](unsigned, row::Type type, int64_t) {
    isNarrow |= isNarrowFloat(type);
  });
  return isNarrow;
}

namespace {

/// Returns the number of adjacent columns per thread, for kernels without row
/// reductions: eight if all elements are narrow floats with sufficient
/// alignment, otherwise four. Eight wider elements would need several accesses.
int64_t freeWidth(const RowShape &shape, Alignments alignments, bool isFlat) {
  bool isNarrow = true;
  forEachElement(shape, [&](unsigned arg, row::Type type, int64_t stride) {
    isNarrow &= isNarrowFloat(type) && alignments[arg] % kWidestAccess == 0 &&
                (isFlat || bytesOf(type, stride) % kWidestAccess == 0);
  });
  return isNarrow ? kWidestAccess / bytesOf(row::Type::BF16) : kLanes;
}

/// Estimates the number of row values that stay in registers between sweeps. A
/// value that several sweeps use counts twice, because a value computed from it
/// may also stay in a register.
int64_t countKept(const RowProgram &program, const row::SweepPlan &sweeps) {
  SmallVector<int64_t> reads(program.nodes.size(), 0);
  for (int32_t s = 0; s < sweeps.sweeps; ++s)
    for (row::NodeId id : sweeps.nodesOf(program, s))
      reads[id] += program.nodes[id].space == Space::Full;
  return 2 * llvm::count_if(reads, [](int64_t count) { return count > 1; });
}

/// Returns the number of rows that each group of threads processes. A group
/// reads the per-column values once for all of its rows. A larger number of
/// rows per group thus reduces both these reads and the number of thread
/// blocks.
int64_t rowsFor(const RowShape &shape, int64_t groupsOfOneRow) {
  const RowProgram &program = shape.program;
  if (hasStore(program, StoreKind::ColumnPartial))
    return program.rowsPerUnit;
  if (llvm::none_of(program.nodes, isPerColumn))
    return 1;
  int64_t factor = hasNarrowRows(shape) ? 2 : 1;
  return std::clamp<int64_t>(factor * groupsOfOneRow / kWantedGroups, 1,
                             factor * kMostRows);
}

/// Returns the number of groups of threads per thread block: the largest one
/// for which the column sums of all groups fit into shared memory.
int64_t groupsOf(const RowProgram &program, int64_t group) {
  int64_t sums = llvm::count_if(program.stores, [](const row::Store &store) {
    return store.kind == StoreKind::ColumnPartial;
  });
  int64_t most = kThreads / group, groups = most,
          least = std::max<int64_t>(1, kWarp / group);
  auto fits = [&] { return groups * sums * program.cols * 4 <= kPartialBytes; };
  while (groups > least && !fits())
    groups /= 2;
  // If the sums do not fit even with the fewest groups, they are accumulated in
  // the result in global memory. Shared memory then does not limit the number
  // of groups.
  return fits() ? groups : most;
}

/// If the groups of threads in a thread block can process one chunk of rows
/// together, sets RowPlan::tileBlocks and the members that depend on it. The
/// groups process their rows in tiles of `tileBlocks` column blocks, with
/// barriers after each tile, so larger tiles need fewer barriers. Shared memory
/// holds the column sums of the chunk and, for each group, the terms of a tile.
void shareChunks(RowPlan &plan, const RowProgram &program) {
  int64_t columns = llvm::alignTo(program.cols, kBlock), staged = 0, sums = 0;
  for (const row::Node &node : program.nodes)
    if (isPerColumn(node))
      staged += columns * bytesOf(node.stored);
  for (const row::Store &store : program.stores) {
    if (store.kind != StoreKind::ColumnPartial)
      continue;
    if (store.stored != row::Type::F32)
      return;
    ++sums;
  }
  int64_t group = kBlock / plan.width, groups = kThreads / group;
  if (sums == 0 || program.rowsPerUnit % groups != 0)
    return;
  // Stage per-column values only if shared memory has space for them.
  for (int64_t mostStaged : {kStagedBytes, int64_t(0)})
    for (int64_t blocks = kMostTileBlocks; blocks >= 1; blocks /= 2) {
      int64_t own = sums * (columns + groups * blocks * kBlock) * 4;
      if (own + std::min(staged, mostStaged) > kSharedBytes)
        continue;
      plan.tileBlocks = blocks;
      plan.stagedBytes = mostStaged;
      plan.groups = groups;
      plan.rowsPerGroup = program.rowsPerUnit / groups;
      return;
    }
}

void planFlat(RowPlan &plan, const RowShape &shape, Alignments alignments) {
  const RowProgram &program = shape.program;
  int64_t elements = program.rows * program.cols, threads = kThreads;
  plan.width = freeWidth(shape, alignments, /*isFlat=*/true);
  if (hasLoad(program, Access::SumOfSlices) &&
      elements < kFewThreads * plan.width) {
    // A width of two permits packed conversions of bf16 elements.
    plan.width = hasNarrowRows(shape) ? 2 : 1;
    threads = kSmallBlock;
  }
  plan.launch = {elements, threads * plan.width, threads};
}

void planSplit(RowPlan &plan, const RowShape &shape, Alignments alignments) {
  const RowProgram &program = shape.program;
  int64_t blocks = llvm::divideCeil(program.cols, kBlock);
  plan.width = freeWidth(shape, alignments, /*isFlat=*/false);
  plan.rowsPerGroup = rowsFor(shape, program.rows * blocks);
  bool isNarrow = hasNarrowRows(shape);
  bool isRandom = llvm::any_of(program.nodes, [](const row::Node &node) {
    return node.kind == Kind::Random;
  });
  if (isRandom && (isNarrow || !hasStore(program, StoreKind::ColumnPartial)))
    plan.spread = kRandomWords;
  if (isNarrow) {
    plan.sharesColumns = llvm::any_of(program.nodes, isPerColumn);
    if (plan.sharesColumns && !hasStore(program, StoreKind::ColumnPartial))
      plan.rowsPerGroup = kNarrowRows / plan.spread;
  }
  if (hasNarrowRows(shape) || hasStore(program, StoreKind::ColumnPartial)) {
    int64_t loads = llvm::count_if(program.nodes, [](const row::Node &node) {
      return node.kind == Kind::Load && node.space == Space::Full;
    });
    // A random counter yields kRandomWords words, and all of them need
    // registers. With random numbers, a thread therefore loads fewer rows at
    // once, by this factor.
    int64_t words = isRandom ? kRandomWords : 1;
    uint64_t rows = kLoadsAtOnce / (words * std::max<int64_t>(loads, 1));
    plan.rowsAtOnce = std::clamp<int64_t>(
        llvm::bit_floor(rows), 1, llvm::bit_floor(uint64_t(plan.rowsPerGroup)));
  }
  plan.groups = kThreads * plan.width * plan.spread / kBlock;
  int64_t chunks = llvm::divideCeil(program.rows, plan.rowsPerGroup);
  plan.launch.threads = kThreads;
  plan.launch.unitsPerBlock = plan.sharesColumns ? 1 : plan.groups;
  plan.launch.units =
      llvm::divideCeil(chunks, plan.sharesColumns ? plan.groups : 1) * blocks;
}

} // namespace

void alignBlocks(RowPlan &plan, const RowShape &shape, Alignments alignments,
                 bool staysByColumn) {
  const RowProgram &program = shape.program;
  bool depends = llvm::any_of(program.nodes, [&](const row::Node &node) {
    return node.kind == Kind::Random ||
           (node.kind == Kind::Load && node.access != Access::Identity &&
            (node.space == Space::Full ||
             (node.space == Space::Column && !staysByColumn)));
  });
  if (program.cols <= kCachedColumns || depends ||
      hasStore(program, StoreKind::ColumnPartial))
    return;
  int64_t alignment = kBlock;
  bool beginsAnywhere = false;
  forEachElement(shape, [&](unsigned arg, row::Type type, int64_t stride) {
    alignment = std::min(alignment, alignments[arg] / bytesOf(type));
    if (plan.rowStride && plan.rowStride != stride)
      alignment = 1;
    plan.rowStride = stride;
    beginsAnywhere |= bytesOf(type, stride) % kSectorBytes != 0;
  });
  if (alignment >= kLanes && beginsAnywhere)
    plan.blockAlignment = llvm::bit_floor(uint64_t(alignment));
}

namespace {

void planWholeRows(RowPlan &plan, const RowShape &shape, Alignments alignments,
                   const row::SweepPlan &sweeps) {
  const RowProgram &program = shape.program;
  plan.width = kLanes;
  // Assign a warp instead of half a warp to a row if the cached values of the
  // row take too many registers per thread.
  if (program.cols <= kCachedColumns &&
      countKept(program, sweeps) * program.cols * kLanes / kBlock >
          kCacheRegisters)
    plan.width = kBlock / kWarp;
  int64_t group = kBlock / plan.width;
  plan.groups = groupsOf(program, group);
  plan.rowsPerGroup = rowsFor(shape, program.rows);
  shareChunks(plan, program);
  plan.sharesRandom = true;
  alignBlocks(plan, shape, alignments, /*staysByColumn=*/false);
  plan.hidesColumns = plan.rowsPerGroup > 1;
  if (plan.tileBlocks)
    plan.launch = {int64_t(llvm::divideCeil(program.rows, program.rowsPerUnit)),
                   1, plan.groups * group};
  else
    plan.launch = {int64_t(llvm::divideCeil(program.rows, plan.rowsPerGroup)),
                   plan.groups, plan.groups * group};
}

} // namespace

RowPlan planRows(const RowShape &shape, Alignments alignments,
                 const row::SweepPlan &sweeps) {
  RowPlan plan;
  plan.form = formOf(shape, sweeps);
  switch (plan.form) {
  case RowPlan::Flat:
    planFlat(plan, shape, alignments);
    break;
  case RowPlan::Scalar:
    plan.width = kLanes;
    plan.launch = {shape.program.rows, kThreads, kThreads};
    break;
  case RowPlan::Split:
    planSplit(plan, shape, alignments);
    break;
  case RowPlan::Rows:
    if (!planCachedRows(plan, shape, alignments, sweeps) &&
        !planSplitRows(plan, shape, sweeps))
      planWholeRows(plan, shape, alignments, sweeps);
    break;
  case RowPlan::Kept:
    llvm_unreachable("formOf does not return Kept");
  }
  return plan;
}

} // namespace kiln::gpu
