//===- GatherAgain.cpp - Activations that the backward pass gathers -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The backward pass gathers an activation again, so that the gathered tensor of
// the forward pass need not be kept. For this, the shard of each rank is kept,
// or recomputed from values that the backward pass reads anyway:
//
//   %s = kiln.recompute(%x, ...) { norm }
//   %h = kiln.all_gather %s                    overlaps with %dg
//   %dg = kiln.matmul %dy, %w trans_b
//   %dw = kiln.matmul %h, %dy trans_a
//
//===----------------------------------------------------------------------===//

#include "RebuiltOps.h"
#include "StateGathers.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/StageChain.h"

namespace kiln {
#define GEN_PASS_DEF_GATHERAGAIN
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

class Gatherer {
public:
  Gatherer(Block &block, Operation *phase) : block(block), phase(phase) {}
  void gatherAgain(AllGatherOp gather);

private:
  bool isBackward(Operation *op) const { return phase->isBeforeInBlock(op); }
  bool isKept(Value value, Operation *except) const;
  Operation *positionFor(Operation *reader) const;
  Value rebuild(OpBuilder &builder, Value shard);

  Block &block;
  Operation *phase;
};

} // namespace

/// Returns true if an op of the backward pass other than `except` reads a
/// value, or if the value is always in memory.
bool Gatherer::isKept(Value value, Operation *except) const {
  Operation *op = value.getDefiningOp();
  return !op || isa<ReadOp>(op) || op->hasTrait<OpTrait::ConstantLike>() ||
         llvm::any_of(value.getUsers(), [&](Operation *user) {
           return user != except && isBackward(user);
         });
}

/// Returns the op before which an operand of `reader` is gathered, so that the
/// transfer overlaps with this op: the first matmul or attention op that reads
/// a cotangent which `reader` reads, too. If no such op precedes `reader`,
/// returns `reader`.
Operation *Gatherer::positionFor(Operation *reader) const {
  Operation *position = reader;
  for (Value operand : reader->getOperands()) {
    Operation *source = operand.getDefiningOp();
    if (!source || !isBackward(source))
      continue;
    for (Operation *user : operand.getUsers())
      if (user->getBlock() == &block && isHeavyOp(user) &&
          user->isBeforeInBlock(position))
        position = user;
  }
  return position;
}

/// Returns the shard for the backward pass: `shard` itself, or the result of
/// computing `shard` again if it is not kept anyway and is cheap to compute.
Value Gatherer::rebuild(OpBuilder &builder, Value shard) {
  Operation *op = shard.getDefiningOp();
  if (!op || isKept(shard, /*except=*/nullptr))
    return shard;
  std::optional<RebuiltOp> rebuilt = findRebuilt(op);
  if (!rebuilt || rebuilt->residual != shard)
    return shard;
  for (Value source : rebuilt->sources)
    if (!isKept(source, /*except=*/nullptr))
      return shard;
  return buildAgain(builder, *rebuilt);
}

void Gatherer::gatherAgain(AllGatherOp gather) {
  for (auto [shard, whole] :
       llvm::zip_equal(gather.getInputs(), gather.getOutputs())) {
    Operation *position = nullptr;
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : whole.getUses()) {
      Operation *user = use.getOwner();
      if (!isBackward(user))
        continue;
      uses.push_back(&use);
      Operation *before = positionFor(user);
      if (!position || before->isBeforeInBlock(position))
        position = before;
    }
    if (uses.empty())
      continue;
    LayerListener layer(getLayer(gather));
    OpBuilder builder(position->getContext(), &layer);
    builder.setInsertionPoint(position);
    Value source = rebuild(builder, shard);
    auto again = AllGatherOp::create(builder, gather.getLoc(),
                                     TypeRange(whole.getType()), source,
                                     gather.getAxis());
    for (OpOperand *use : uses)
      use->set(again.getOutputs().front());
  }
}

namespace {

struct GatherAgainPass : kiln::impl::GatherAgainBase<GatherAgainPass> {
  void runOnOperation() override {
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      Block &block = program.getBlock();
      auto phases = block.getOps<PhaseOp>();
      if (program.getKind() != ProgramKind::Train || phases.empty())
        continue;
      Operation *phase = *phases.begin();
      Gatherer gatherer(block, phase);
      for (AllGatherOp gather :
           llvm::make_early_inc_range(block.getOps<AllGatherOp>())) {
        if (gather->isBeforeInBlock(phase) && !gathersStates(gather))
          gatherer.gatherAgain(gather);
      }
    }
  }
};

} // namespace
