//===- SplitRows.cpp - Few long rows on a GPU -----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
//   rows(operands, results):     // one thread block per row
//     for (b = 0; b < column blocks; b += blocksAtOnce) {
//       for (i : blocksAtOnce)   // all loads in flight
//         x[i] = load(row, column block b + i, columns of the thread);
//       for (i : blocksAtOnce)
//         partial = combine(partial, x[i]);
//     }
//     value = reduce(partials);  // binary tree
//
// Launch: one thread block of 64 / width threads per row.
// Bytes: each operand is read once per sweep.
//
// RowProgram.h prescribes an order of sums in which the reduction of a row has
// 64 partial results, so at most 64 threads can reduce a row. A kernel with few
// rows, such as the kernel for the norm of all gradients, has few threads and
// is latency-bound. To hide the latency, each thread has only one partial
// result (two if the elements are narrow), and starts the loads of as many
// column blocks as its registers can hold before it adds the first of these
// blocks.
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

/// Maximum number of rows of a kernel that splits rows. If a kernel has more
/// rows than this, half a warp per row suffices to keep the device busy.
constexpr int64_t kMostSplitRows = 256;
/// Maximum number of column blocks whose loads are in flight at the same time,
/// and maximum number of registers of a thread for the loaded values.
constexpr int64_t kMostBlocks = 64, kMostRegisters = 160;

/// Returns the number of registers that a thread needs to hold the values of
/// one column.
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
  // A thread loads two adjacent bf16 elements with one aligned access. The
  // pairs of every row are aligned only if the number of columns is even or
  // there is only one row.
  if (isNarrow && program.rows > 1 && program.cols % 2 != 0)
    return false;
  plan.width = isNarrow ? 2 : 1; // Packed conversions convert two values.
  int64_t blocks = kMostRegisters /
                   (plan.width * std::max<int64_t>(registersOf(program), 1));
  // If the operand is a sum of slices, a thread loads several slices of one
  // column block at once, not several column blocks.
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
