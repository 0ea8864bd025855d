//===- Owners.cpp - Values that one rank has ------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Owners.h"

using namespace mlir;
using namespace kiln;

int64_t kiln::ownerOf(StateOp state) {
  ShardAttr shard = state.getShardAttr();
  return shard ? shard.getOwner() : kNoOwner;
}

DenseI64ArrayAttr kiln::ownersAttr(MLIRContext *context,
                                   ArrayRef<int64_t> owners) {
  if (owners.empty() || owners.front() == kNoOwner)
    return DenseI64ArrayAttr();
  assert(!llvm::is_contained(owners, kNoOwner) && "all or none have owners");
  return DenseI64ArrayAttr::get(context, owners);
}

IntegerAttr kiln::ownerAttr(MLIRContext *context, int64_t owner) {
  if (owner == kNoOwner)
    return IntegerAttr();
  return IntegerAttr::get(IntegerType::get(context, 64), owner);
}

Owners::Owners(ProgramOp program) {
  SymbolTable symbols(program->getParentOfType<ModuleOp>());
  for (Operation &op : program.getBlock())
    visit(&op, symbols);
}

int64_t Owners::join(ValueRange values) const {
  int64_t joined = kNoOwner;
  for (Value value : values)
    joined = std::max(joined, ownerOf(value));
  return joined;
}

int64_t Owners::ownerOf(Operation *op) const {
  if (isa<CollectiveOpInterface, CollectiveStartOp, CollectiveWaitOp,
          MicrobatchesOp>(op))
    return kNoOwner;
  if (auto take = dyn_cast<TakeShardOp>(op); take && take.getOwner())
    return static_cast<int64_t>(*take.getOwner());
  return join(op->getOperands());
}

void Owners::visit(Operation *op, const SymbolTable &symbols) {
  if (auto read = dyn_cast<ReadOp>(op)) {
    auto state = symbols.lookup<StateOp>(read.getState());
    return set(read.getY(), kiln::ownerOf(state));
  }
  auto setEach = [&](std::optional<ArrayRef<int64_t>> given) {
    for (auto [result, owner] :
         llvm::zip(op->getResults(), given.value_or(ArrayRef<int64_t>())))
      set(result, owner);
  };
  if (auto reduce = dyn_cast<ReduceScatterOp>(op))
    return setEach(reduce.getOwners());
  if (auto start = dyn_cast<CollectiveStartOp>(op)) {
    if (start.getCollective() == Collective::ReduceScatter)
      setEach(start.getOwners());
    return;
  }
  if (isa<CollectiveOpInterface>(op))
    return;
  if (auto wait = dyn_cast<CollectiveWaitOp>(op)) {
    for (auto [token, output] :
         llvm::zip_equal(wait.getTokens(), wait.getOutputs()))
      set(output, ownerOf(token));
    return;
  }
  if (auto microbatches = dyn_cast<MicrobatchesOp>(op)) {
    if (microbatches.isDivided())
      for (Operation &inner : microbatches.getForward())
        visit(&inner, symbols);
    for (auto [argument, value] : llvm::zip_equal(
             microbatches.getResidualArguments(), microbatches.getResiduals()))
      set(argument, ownerOf(value));
    for (Operation &inner : microbatches.getBackward())
      visit(&inner, symbols);
    for (auto [sum, value] :
         llvm::zip_equal(microbatches.getSums(), microbatches.getYieldedSums()))
      set(sum, ownerOf(value));
    for (auto [argument, sum] : llvm::zip_equal(microbatches.getSumArguments(),
                                                microbatches.getSums()))
      set(argument, ownerOf(sum));
    return;
  }
  if (auto recompute = dyn_cast<RecomputeOp>(op)) {
    Block &body = recompute->getRegion(0).front();
    for (auto [argument, operand] :
         llvm::zip_equal(body.getArguments(), op->getOperands()))
      set(argument, ownerOf(operand));
    for (Operation &inner : body)
      visit(&inner, symbols);
    for (auto [result, value] :
         llvm::zip_equal(op->getResults(), body.getTerminator()->getOperands()))
      set(result, ownerOf(value));
    return;
  }
  int64_t owner = ownerOf(op);
  for (Value operand : op->getOperands())
    if (int64_t other = ownerOf(operand);
        other != kNoOwner && other != owner && !isa<ReturnOp, YieldOp>(op))
      conflict = op;
  for (Value result : op->getResults())
    set(result, owner);
}
