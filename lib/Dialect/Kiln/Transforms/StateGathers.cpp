//===- StateGathers.cpp - All-gathers of states -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StateGathers.h"

#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/IR/Owners.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kiln;

/// All-gathers of less than this number of bytes are joined with the next ones
/// of their layer, because each message costs the latency of the network.
static constexpr int64_t kJoinedBytes = int64_t(4) << 20;

bool kiln::isFromState(Value value) {
  Operation *op = value.getDefiningOp();
  return isa_and_nonnull<ReadOp>(op) ||
         (isa_and_nonnull<CastOp, CopyInOp, CopyWaitOp, DispatchOp>(op) &&
          op->getNumOperands() > 0 &&
          llvm::all_of(op->getOperands(), isFromState));
}

bool kiln::gathersStates(Operation *op) {
  return isa<AllGatherOp>(op) && llvm::all_of(op->getOperands(), isFromState);
}

void kiln::moveSourcesBefore(ValueRange values, Operation *position) {
  for (Value value : values) {
    Operation *op = value.getDefiningOp();
    if (!op || op->getBlock() != position->getBlock() ||
        op->isBeforeInBlock(position))
      continue;
    op->moveBefore(position);
    moveSourcesBefore(op->getOperands(), op);
  }
}

/// Returns the state from which a cast or a copy is computed.
static FlatSymbolRefAttr stateOf(Value value) {
  while (!value.getDefiningOp<ReadOp>()) {
    assert(!isa<DispatchOp>(value.getDefiningOp()) &&
           "dispatches may compute different values from one state");
    value = value.getDefiningOp()->getOperand(0);
  }
  return value.getDefiningOp<ReadOp>().getStateAttr();
}

/// Replaces several all-gathers by one at the position of the first.
static void join(ArrayRef<AllGatherOp> gathers) {
  if (gathers.size() < 2)
    return;
  AllGatherOp first = gathers.front();
  SmallVector<Value> inputs;
  SmallVector<Type> types;
  SmallVector<int64_t> owners;
  // Two of the all-gathers may gather the same state, for different readers.
  llvm::SmallMapVector<Attribute, unsigned, 8> indexes;
  SmallVector<std::pair<Value, unsigned>> outputs;
  for (AllGatherOp gather : gathers)
    for (auto [i, input, output] :
         llvm::enumerate(gather.getInputs(), gather.getOutputs())) {
      auto [found, isNew] = indexes.try_emplace(stateOf(input), inputs.size());
      outputs.push_back({output, found->second});
      if (!isNew)
        continue;
      inputs.push_back(input);
      types.push_back(output.getType());
      owners.push_back(ownerOfTensor(gather, i));
    }
  moveSourcesBefore(inputs, first);
  OpBuilder builder(first);
  auto joined = AllGatherOp::create(builder, first.getLoc(), types, inputs,
                                    first.getAxis(),
                                    ownersAttr(builder.getContext(), owners));
  copyLayer(first, joined);
  for (auto [output, index] : outputs)
    output.replaceAllUsesWith(joined.getOutputs()[index]);
  for (AllGatherOp gather : gathers)
    gather.erase();
}

void kiln::joinGathers(Block &block) {
  SmallVector<AllGatherOp> open;
  int64_t bytes = 0;
  auto elementOf = [](AllGatherOp gather) {
    return elementTypeOf(gather.getOutputs().front().getType());
  };
  auto close = [&] {
    join(open);
    open.clear();
    bytes = 0;
  };
  for (Operation &op : llvm::make_early_inc_range(block)) {
    if (isa<PhaseOp>(op))
      close();
    if (!gathersStates(&op))
      continue;
    auto gather = cast<AllGatherOp>(op);
    if (!open.empty() && (getLayer(gather) != getLayer(open.front()) ||
                          gather.getAxis() != open.front().getAxis() ||
                          elementOf(gather) != elementOf(open.front()) ||
                          !ownersAttrOf(gather) != !ownersAttrOf(open.front())))
      close();
    // Do not join all-gathers that belong to no layer, because they may be far
    // apart.
    if (!getLayer(gather))
      continue;
    open.push_back(gather);
    for (Value output : gather.getOutputs())
      bytes += bytesOf(output.getType());
    if (bytes >= kJoinedBytes)
      close();
  }
  close();
}
