//===- CachedRowsPlan.cpp - Launch plan of rows cached in shared memory ---===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CachedRows.cpp describes the kernel. Shared memory holds, in order of
// priority, the row values that sweeps read, two tiles of reduction terms, and
// per-column values.
//
//===----------------------------------------------------------------------===//

#include "RowPlan.h"

#include "GpuBuilder.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

using row::Kind;
using row::NodeId;
using row::RowProgram;
using row::Space;
using row::StoreKind;

namespace {

/// Threads per long, medium and short row. With kMostThreads, two blocks with
/// rows of 50257 bf16 elements fit on a multiprocessor with 228 KiB of shared
/// memory. Each block has two tiles of 1536 terms and keeps the last tiles of
/// its row in registers.
constexpr int64_t kMostThreads = 384, kManyThreads = 256, kFewThreads = 128;
/// Maximum number of column blocks (of 64 columns) of a short row, and of a
/// medium row.
constexpr int64_t kShortRow = 32, kMiddleRow = 256;
/// Maximum shared memory for per-column values, so that several thread blocks
/// fit on a multiprocessor.
constexpr int64_t kKeptColumnBytes = 64 * 1024;
/// Row values that only one sweep reads are cached too if all cached values of
/// the row then take at most this many bytes of shared memory.
constexpr int64_t kReadOnceBytes = 32 * 1024;
/// Maximum registers per thread for the tiles of a row that do not fit into
/// shared memory. kLongTailRegisters applies if kManyThreads threads instead of
/// kMostThreads process a long row, since each thread then has more registers.
constexpr int64_t kTailRegisters = 48, kLongTailRegisters = 112;
/// Preferred number of thread blocks, and maximum rows per block. Each block
/// reads the per-column values once.
constexpr int64_t kBlocksWanted = 340, kMostRows = 48;
/// Maximum threads, and maximum bytes of shared memory, of a thread block that
/// processes several rows at a time.
constexpr int64_t kThreadsTogether = 512, kBytesTogether = 96 * 1024;

bool isRowLoad(const row::Node &node) {
  return node.kind == Kind::Load && node.space == Space::Full;
}

/// Returns, for each node, the number of sweeps (loops over the columns of a
/// row) that read it from memory.
SmallVector<int64_t> countReads(const RowProgram &program,
                                const row::SweepPlan &sweeps) {
  SmallVector<int64_t> reads(program.nodes.size(), 0);
  for (int32_t s = 0; s < sweeps.sweeps; ++s)
    for (NodeId id : sweeps.nodesOf(program, s))
      reads[id] += isRowLoad(program.nodes[id]) || sweeps.isReadBack(id, s);
  return reads;
}

/// Returns the number of reductions in the sweep with the most reductions, or
/// -1 if a reduction has a type other than f32.
int64_t mostReductions(const RowProgram &program,
                       const row::SweepPlan &sweeps) {
  size_t most = 0;
  for (int32_t s = 0; s < sweeps.sweeps; ++s) {
    SmallVector<NodeId> reductions = sweeps.reductionsOf(program, s);
    most = std::max(most, reductions.size());
    for (NodeId id : reductions)
      if (program.nodes[id].type != row::Type::F32)
        return -1;
  }
  return most;
}

} // namespace

row::Type keptTypeOf(const RowProgram &program, const row::SweepPlan &sweeps,
                     NodeId id) {
  const row::Node &node = program.nodes[id];
  if (node.kind != Kind::Load)
    return program.stores[sweeps.savedBy[id]].stored;
  return node.access == row::Access::SumOfSlices ? node.type : node.stored;
}

bool planCachedRows(RowPlan &plan, const RowShape &shape, Alignments alignments,
                    const row::SweepPlan &sweeps) {
  const RowProgram &program = shape.program;
  int64_t reductions = mostReductions(program, sweeps);
  if (program.cols <= kCachedColumns || reductions < 0 ||
      hasStore(program, StoreKind::ColumnPartial))
    return false;
  RowPlan kept;
  kept.form = RowPlan::Kept;
  kept.width = kLanes;
  kept.stagedBytes = kKeptColumnBytes;
  alignBlocks(kept, shape, alignments, /*staysByColumn=*/true);

  SmallVector<int64_t> reads = countReads(program, sweeps);
  bool isLoaded = true;
  int64_t elementBytes = 0; // Bytes per column of all cached nodes.
  auto keep = [&](NodeId id) {
    kept.kept.push_back(id);
    elementBytes += bytesOf(keptTypeOf(program, sweeps, id));
    isLoaded &= isRowLoad(program.nodes[id]);
  };
  for (auto [id, count] : llvm::enumerate(reads))
    if (count > 1 || (count == 1 && sweeps.savedBy[id] >= 0))
      keep(id);
  if (kept.kept.empty())
    return false;

  int64_t reach = program.cols + kept.blockAlignment - 1;
  int64_t blocks = llvm::divideCeil(reach, kBlock), threads = 0, columns = 0,
          bytes = 0;
  // Returns true if a row fits with `count` threads. The last tiles of the row
  // are in registers if shared memory is too small for all tiles.
  auto fits = [&](int64_t count, int64_t tailRegisters) {
    threads = count;
    columns = llvm::alignTo(reach, threads * kept.width);
    int64_t sums = reductions * (2 * threads * kept.width + kBlock) * 4;
    int64_t tiles = columns / (threads * kept.width),
            tileBytes = threads * kept.width * elementBytes,
            shared = std::min(tiles, (kMostSharedBytes - sums) / tileBytes);
    kept.registerTiles = tiles - shared;
    bytes = sums + shared * tileBytes;
    return kept.registerTiles == 0 ||
           (isLoaded && shared > 0 &&
            kept.registerTiles * kept.width * int64_t(kept.kept.size()) <=
                tailRegisters);
  };
  if (blocks <= kShortRow) {
    if (!fits(kFewThreads, kTailRegisters))
      return false;
  } else if (blocks <= kMiddleRow) {
    if (!fits(kManyThreads, kTailRegisters))
      return false;
  } else if (!fits(kMostThreads, kTailRegisters) &&
             !fits(kManyThreads, kLongTailRegisters)) {
    return false;
  }

  int64_t staged = 0;
  for (const row::Node &node : program.nodes)
    if (isPerColumn(node))
      staged +=
          llvm::alignTo(program.cols * bytesOf(node.stored), kWidestAccess);
  bool stagesAll =
      staged <= kKeptColumnBytes && bytes + staged <= kMostSharedBytes;
  if (!stagesAll) {
    // If blockAlignment > 1, the first column block may start before the row,
    // and the per-column values must be in shared memory.
    if (kept.blockAlignment > 1)
      return false;
    kept.stagedBytes = 0;
    staged = 0;
  }
  for (auto [id, count] : llvm::enumerate(reads))
    if (count == 1 && isRowLoad(program.nodes[id]) &&
        bytes + columns * bytesOf(keptTypeOf(program, sweeps, id)) <=
            kReadOnceBytes) {
      keep(id);
      bytes += columns * bytesOf(keptTypeOf(program, sweeps, id));
    }
  int64_t together = 1;
  if (staged > 0) {
    while (2 * together * threads <= kThreadsTogether &&
           2 * together * bytes + staged <= kBytesTogether)
      together *= 2;
    kept.rowsPerGroup = std::clamp<int64_t>(
        program.rows / (kBlocksWanted * together), 1, kMostRows / together);
  }
  kept.groups = together;
  kept.launch = {
      int64_t(llvm::divideCeil(program.rows, kept.rowsPerGroup * together)), 1,
      threads * together};
  plan = std::move(kept);
  return true;
}

} // namespace kiln::gpu
