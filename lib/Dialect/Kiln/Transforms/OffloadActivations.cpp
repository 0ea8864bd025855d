//===- OffloadActivations.cpp - Marking of residuals for offloading -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/Offload.h"

#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_OFFLOADACTIVATIONS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

SmallVector<OpResult> kiln::residualsOf(const StageChain &chain) {
  SmallVector<OpResult> values;
  auto add = [&](Value value) {
    auto result = dyn_cast<OpResult>(viewedValue(value));
    if (result && chain.stageOf(result.getOwner()) >= 0 &&
        !chain.isMaterialization(result.getOwner()) &&
        !llvm::is_contained(values, result))
      values.push_back(result);
  };
  llvm::DenseSet<Operation *> backward(chain.backwardOps().begin(),
                                       chain.backwardOps().end());
  for (const ForwardStage &stage : chain.stages()) {
    if (stage.input &&
        llvm::any_of(stage.input.getUsers(),
                     [&](Operation *user) { return backward.contains(user); }))
      add(stage.input);
    for (Value residual : stage.residuals)
      add(residual);
  }
  int64_t largest = 0;
  for (OpResult value : values)
    largest = std::max(largest, bytesOf(value.getType()));
  llvm::erase_if(values, [&](OpResult value) {
    return bytesOf(value.getType()) * kSmallShare <= largest;
  });
  return values;
}

void kiln::markOffload(OpResult value, int64_t lag, int64_t lead) {
  Operation *op = value.getOwner();
  SmallVector<int64_t> numbers;
  if (auto marks = op->getAttrOfType<DenseI64ArrayAttr>(kOffloadAttr))
    numbers.assign(marks.asArrayRef().begin(), marks.asArrayRef().end());
  numbers.append({value.getResultNumber(), lag, lead});
  op->setAttr(kOffloadAttr, DenseI64ArrayAttr::get(op->getContext(), numbers));
}

namespace {

struct OffloadActivationsPass
    : kiln::impl::OffloadActivationsBase<OffloadActivationsPass> {
  using OffloadActivationsBase::OffloadActivationsBase;

  void runOnOperation() override {
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      if (program.getKind() != ProgramKind::Train)
        continue;
      for (OpResult value : residualsOf(StageChain(program)))
        markOffload(value, lag, lead);
    }
  }
};

} // namespace
