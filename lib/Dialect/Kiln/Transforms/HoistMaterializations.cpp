//===- HoistMaterializations.cpp - Materializations of a whole step -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A materialization (see StageChain), a value that is computed from states and
// constants alone, is the same in all micro-batches, because states do not
// change during a step. If the forward pass of a micro-batch keeps a
// materialization for the backward pass, this rewrite computes it once, before
// the micro-batches.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/Recompute.h"

using namespace mlir;
using namespace kiln;

void kiln::hoistMaterializations(const StageChain &chain) {
  if (chain.size() == 0)
    return;
  Block &body = *chain.stages().front().ops.front()->getBlock();
  auto microbatches = dyn_cast<MicrobatchesOp>(body.getParentOp());
  if (!microbatches)
    return;
  Operation *phase = *body.getOps<PhaseOp>().begin();
  llvm::SmallDenseSet<Operation *> kept;
  auto isKept = [&](Operation *op) {
    return llvm::any_of(op->getUsers(), [&](Operation *user) {
      user = body.findAncestorOpInBlock(*user);
      return phase->isBeforeInBlock(user) || kept.contains(user);
    });
  };
  for (const ForwardStage &stage : chain.stages())
    for (Operation *op : llvm::reverse(stage.ops))
      if (chain.isMaterialization(op) && isKept(op))
        kept.insert(op);
  auto movesAlong = [](Operation *op) {
    return isa<ReadOp>(op) || op->hasTrait<OpTrait::ConstantLike>();
  };
  // Visit the ops in program order, so that the operands of an op move first.
  for (Operation &op : llvm::make_early_inc_range(body)) {
    if (!kept.contains(&op))
      continue;
    auto isOutside = [&](Value operand) {
      Operation *def = operand.getDefiningOp();
      return operand.getParentBlock() != &body || (def && movesAlong(def));
    };
    if (!llvm::all_of(op.getOperands(), isOutside))
      continue;
    for (Value operand : op.getOperands())
      if (operand.getParentBlock() == &body)
        operand.getDefiningOp()->moveBefore(microbatches);
    op.moveBefore(microbatches);
  }
}
