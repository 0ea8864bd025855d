//===- StateResidency.cpp - Updates and residencies of states -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/StateResidency.h"

#include "kiln/Support/ShareSelector.h"

using namespace mlir;
using namespace kiln::support;
using namespace kiln;

ReadOp kiln::readOf(Value value) {
  if (auto take = value.getDefiningOp<TakeShardOp>())
    value = take.getX();
  return value.getDefiningOp<ReadOp>();
}

/// Returns true if `result`, which is written to `state`, is the updated value
/// of the state: it is tied to an operand that reads the state, that is, the op
/// updates this operand in place. The results of dispatches are not tied yet,
/// so any result of a dispatch that reads the state is accepted.
static bool isUpdateOf(OpResult result, FlatSymbolRefAttr state) {
  auto reads = [&](Value operand) {
    ReadOp read = readOf(operand);
    return read && read.getStateAttr() == state;
  };
  if (isa<DispatchOp>(result.getOwner()))
    return llvm::any_of(result.getOwner()->getOperands(), reads);
  auto op = dyn_cast<DispatchableOpInterface>(result.getOwner());
  int64_t tied = op ? op.getTiedOperand(result.getResultNumber()) : -1;
  return tied >= 0 && reads(op->getOperand(tied));
}

/// If a value is gathered from the shards of all ranks, returns the shard of
/// this rank. Otherwise returns null.
static Value shardOf(Value value) {
  auto gather = value.getDefiningOp<AllGatherOp>();
  auto wait = value.getDefiningOp<CollectiveWaitOp>();
  auto start = wait ? wait.getStart() : CollectiveStartOp();
  bool isGathered =
      gather || (start && start.getCollective() == Collective::AllGather);
  if (!isGathered)
    return Value();
  unsigned number = cast<OpResult>(value).getResultNumber();
  return gather ? gather.getInputs()[number] : start.getInputs()[number];
}

std::vector<StateUpdate> kiln::findUpdates(ModuleOp module, ProgramOp train) {
  SymbolTable symbols(module);
  llvm::DenseMap<StringRef, SmallVector<StateOp, 2>> moments;
  llvm::DenseMap<StringRef, StateOp> copies;
  for (StateOp state : module.getOps<StateOp>())
    if (state.getRole() == Role::Optimizer)
      moments[*state.getOf()].push_back(state);
    else if (state.getRole() == Role::Mirror)
      copies[*state.getOf()] = state;
  std::vector<StateUpdate> updates;
  DenseMap<Operation *, DenseMap<StringAttr, WriteOp>> writes;
  for (WriteOp write : train.getBlock().getOps<WriteOp>()) {
    Value shard = shardOf(write.getValue());
    auto result = dyn_cast<OpResult>(shard ? shard : write.getValue());
    if (!result)
      continue;
    writes[result.getOwner()][write.getStateAttr().getAttr()] = write;
    auto state = symbols.lookup<StateOp>(write.getState());
    if (state.isTrainable() && isUpdateOf(result, write.getStateAttr()))
      updates.push_back({state, write, result.getOwner(), {}, {}});
  }
  for (StateUpdate &update : updates) {
    const DenseMap<StringAttr, WriteOp> &written = writes[update.op];
    for (StateOp moment : moments.lookup(update.parameter.getSymName()))
      if (written.contains(moment.getSymNameAttr()))
        update.moments.push_back(moment);
    StateOp copy = copies.lookup(update.parameter.getSymName());
    if (copy && written.contains(copy.getSymNameAttr()))
      update.copy = copy;
    WriteOp last = written.lookup(update.getUsed().getSymNameAttr());
    update.isGathered = shardOf(last.getValue()) != nullptr;
  }
  llvm::sort(updates, [](const StateUpdate &a, const StateUpdate &b) {
    return a.op->isBeforeInBlock(b.op);
  });
  return updates;
}

SmallVector<StateOp, 3> StateUpdate::getUpdateStates() const {
  SmallVector<StateOp, 3> states(moments.begin(), moments.end());
  if (copy)
    states.push_back(parameter);
  return states;
}

bool kiln::updatesComeLast(ProgramOp train, ArrayRef<StateUpdate> updates) {
  llvm::SmallPtrSet<Operation *, 16> ops;
  for (const StateUpdate &update : updates)
    ops.insert(update.op);
  Operation *first = updates.empty() ? nullptr : updates.front().op;
  for (Operation *op = first; op; op = op->getNextNode())
    if (ops.contains(op)
            ? !llvm::all_of(op->getUsers(), llvm::IsaPred<WriteOp, CopyInOp>)
            : !isa<WriteOp, ReturnOp, CopyInOp, CopyOutOp, CopyWaitOp>(op))
      return false;
  return true;
}

SmallVector<OpResult> kiln::gradientsOf(const StateUpdate &update) {
  SmallVector<OpResult> gradients;
  for (Value value : update.op->getOperands()) {
    while (value.getDefiningOp() &&
           familyOf(value.getDefiningOp()) == Family::View)
      value = value.getDefiningOp()->getOperand(0);
    auto result = dyn_cast<OpResult>(value);
    if (result && !readOf(value) && tensorTypeOf(value).getRank() > 0)
      gradients.push_back(result);
  }
  return gradients;
}

SmallVector<StateOp> kiln::readOnlyWeights(ModuleOp module) {
  llvm::DenseSet<StringAttr> staying;
  module.walk(
      [&](WriteOp write) { staying.insert(write.getStateAttr().getAttr()); });
  // A state stays on the device if a write, return or yield reads it, because
  // kiln-place-copies inserts copies only for ops that become commands.
  module.walk([&](ReadOp read) {
    SmallVector<Value> values{read.getResult()};
    while (!values.empty())
      for (Operation *user : values.pop_back_val().getUsers()) {
        if (isa<WriteOp, ReturnOp, YieldOp>(user))
          staying.insert(read.getStateAttr().getAttr());
        else if (familyOf(user) == Family::View)
          llvm::append_range(values, user->getResults());
      }
  });
  SmallVector<StateOp> weights;
  for (StateOp state : module.getOps<StateOp>())
    if ((state.getRole() == Role::Parameter ||
         state.getRole() == Role::Buffer) &&
        !staying.contains(state.getSymNameAttr()))
      weights.push_back(state);
  return weights;
}

static void setResidency(StateOp state, Residency residency) {
  if (!state->hasAttr(kResidencyAttr))
    state->setAttr(kResidencyAttr,
                   ResidencyAttr::get(state.getContext(), residency));
}

void kiln::assignResidency(ModuleOp module, ProgramOp train,
                           const ResidencyShares &shares) {
  ShareSelector optimizer(shares.optimizer), moments(shares.moments),
      parameters(shares.parameters);
  for (StateUpdate &update : findUpdates(module, train)) {
    int64_t bytes = bytesOf(update.getUsed().getType());
    bool onHost = optimizer.select(bytes);
    bool hasNoMirror = parameters.select(bytes);
    if (onHost)
      setResidency(update.getUsed(), hasNoMirror ? Residency::UpdatedOnHost
                                                 : Residency::Mirrored);
    else if (hasNoMirror)
      setResidency(update.getUsed(), Residency::Host);
    if (moments.select(bytes, /*isSelectable=*/!onHost))
      for (StateOp state : update.getUpdateStates())
        setResidency(state, Residency::Host);
  }
  for (StateOp weight : readOnlyWeights(module))
    if (parameters.select(bytesOf(weight.getType())))
      setResidency(weight, Residency::Host);
}
