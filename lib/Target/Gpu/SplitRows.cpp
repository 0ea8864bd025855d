//===- SplitRows.cpp - Few long rows on a gpu
//-------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The order of sums leaves a row 64 partial results, so no more than 64 threads
// can add it up; a kernel of a few rows, like the norm of all gradients, waits
// for memory most of its time. So each partial result gets a thread of its own,
// and a thread loads as many blocks before it adds the first as it has
// registers for. A row is a block of two warps, which combine halves in shared
// memory.
//
//===----------------------------------------------------------------------===//

#include "RowEmitter.h"

#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;

namespace kiln::gpu {

using row::Access;
using row::Kind;
using row::RowProgram;
using row::Space;
using row::StoreKind;

/// With more rows than that, half a warp for each keeps the device busy.
constexpr int64_t kMostSplitRows = 256;
/// Blocks that are on their way at a time, and what their values may take.
constexpr int64_t kMostBlocks = 64, kMostRegisters = 160;

/// Registers of a thread for what depends on one of its columns.
static int64_t registersOf(const RowProgram &program) {
  int64_t registers = 0;
  for (const row::Node &node : program.nodes)
    if (node.space == Space::Full)
      registers += llvm::divideCeil(bytesOf(node.type), 4);
  return registers;
}

bool planSplitRows(RowPlan &plan, const RowShape &shape,
                   const row::SweepPlan &sweeps) {
  const RowProgram &program = shape.program;
  bool isReadOnce = program.cols > kCachedColumns || sweeps.sweeps == 1;
  if (program.rows > kMostSplitRows || !isReadOnce ||
      program.cols <= plan.blocksAtOnce * kBlock ||
      hasStore(program, StoreKind::ColumnPartial) ||
      llvm::any_of(program.nodes, [](const row::Node &node) {
        return node.kind == Kind::Random;
      }))
    return false;
  bool isNarrow = hasNarrowRows(shape);
  // There an access has two elements.
  if (isNarrow && program.rows > 1 && program.cols % 2 != 0)
    return false;
  plan.width = isNarrow ? 2 : 1; // Elements of bf16 are rounded in pairs.
  int64_t blocks = kMostRegisters /
                   (plan.width * std::max<int64_t>(registersOf(program), 1));
  // Of slices a thread loads several of one block.
  if (!hasLoad(program, Access::SumOfSlices))
    plan.blocksAtOnce =
        std::clamp<int64_t>(blocks, plan.blocksAtOnce, kMostBlocks);
  plan.launch = {program.rows, 1, kBlock / plan.width};
  return true;
}

void RowEmitter::emitManyBlocks(Value first, MutableArrayRef<Value> partials) {
  auto positionIn = [&](Value block, bool whole) {
    return positionAt(k.add(first, k.mul(block, k.i64Constant(kBlock))), whole);
  };
  int64_t whole = program.cols / kBlock;
  int64_t inLoop = llvm::alignDown(whole, blocksAtOnce);
  if (inLoop > 0)
    llvm::copy(k.loop(k.i64Constant(0), k.i64Constant(inLoop), blocksAtOnce,
                      partials,
                      [&](Value block, ValueRange carried) {
                        SmallVector<Value> next(carried);
                        SmallVector<Position> positions;
                        for (int64_t i : llvm::seq(blocksAtOnce))
                          positions.push_back(
                              positionIn(k.add(block, k.i64Constant(i)), true));
                        emitPositions(positions, next);
                        return next;
                      }),
               partials.begin());
  SmallVector<Position> rest;
  int64_t blocks = llvm::divideCeil(program.cols, kBlock);
  for (int64_t block : llvm::seq(inLoop, blocks))
    rest.push_back(positionIn(k.i64Constant(block), block < whole));
  if (!rest.empty())
    emitPositions(rest, partials);
}

Value RowEmitter::exchange(Value x, int64_t distance) {
  if (distance < kWarp)
    return k.shuffleXor(x, distance);
  Type type = getElementTypeOrSelf(x);
  Value shared = k.shared(type, k.threads());
  k.store(x, k.element(shared, type, k.thread()));
  k.barrier();
  Value other = k.bitXor(k.thread(), k.i64Constant(distance));
  return k.load(k.element(shared, type, other), x.getType());
}

} // namespace kiln::gpu
