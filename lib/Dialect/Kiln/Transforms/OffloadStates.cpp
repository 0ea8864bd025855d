//===- OffloadStates.cpp - States in host memory ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves states to host memory, and inserts copies at their reads and writes.
// Other ops do not change. With the optimizer on the host:
//
//   %g            --> %f = copy_out %g  ...  %gh = copy_wait %f, %g
//   update(%p, %m, %v, %g)   --> update {host} (%p, %m, %v, %gh)
//   write @w, %p1            --> write @w, %p1
//                                %c = copy_in %p1  ...  %d = copy_wait %c, %p1
//                                write @w.device, %d
//   other reads of @w        --> read @w.device
//
// Weights that no program writes, such as frozen parameters and buffers, also
// move with the parameters. Only their reads need copies.
//
// An update is an op whose result is written to the state that its tied operand
// reads.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_OFFLOADSTATES
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Number of further gradient copies that begin before an update waits for its
/// gradient.
static constexpr size_t kGradientsUnderWay = 2;

namespace {

/// An update op and its parameter.
struct Update {
  StateOp parameter;
  WriteOp write; ///< The write of the parameter.
  Operation *op = nullptr;
};

class StateOffloader {
public:
  StateOffloader(ModuleOp module, ProgramOp train, bool optimizer,
                 bool parameters)
      : module(module), train(train), optimizer(optimizer),
        parameters(parameters), builder(module.getContext()) {}
  void run();

private:
  void findUpdates();
  Operation *beginOut(Value value);
  void moveUpdates();
  void sendBack();
  void addMirrors();
  void moveReadOnlyWeights();
  Operation *lastReader(StringAttr state);

  ModuleOp module;
  ProgramOp train;
  bool optimizer, parameters;
  OpBuilder builder;
  std::vector<Update> updates; ///< Updates in program order.
};

} // namespace

void StateOffloader::findUpdates() {
  SymbolTable symbols(module);
  for (WriteOp write : train.getBlock().getOps<WriteOp>()) {
    auto state = symbols.lookup<StateOp>(write.getState());
    auto result = dyn_cast<OpResult>(write.getValue());
    if (!state.isTrainable() || !result)
      continue;
    auto op = dyn_cast<DispatchableOpInterface>(result.getOwner());
    int64_t tied = op ? op.getTiedOperand(result.getResultNumber()) : -1;
    auto read =
        tied < 0 ? ReadOp() : op->getOperand(tied).getDefiningOp<ReadOp>();
    if (read && read.getStateAttr() == write.getStateAttr())
      updates.push_back({state, write, op});
  }
  llvm::sort(updates, [](const Update &a, const Update &b) {
    return a.op->isBeforeInBlock(b.op);
  });
}

/// Begins a copy of a value to the host directly after its definition.
Operation *StateOffloader::beginOut(Value value) {
  builder.setInsertionPointAfterValue(value);
  return CopyOutOp::create(builder, value.getLoc(), value.getType(), value);
}

/// Returns the last op of the train program that reads the entry value of a
/// state.
Operation *StateOffloader::lastReader(StringAttr state) {
  Operation *last = nullptr;
  SmallVector<Value> values;
  for (ReadOp read : train.getBlock().getOps<ReadOp>())
    if (read.getStateAttr().getAttr() == state)
      values.push_back(read.getResult());
  while (!values.empty())
    for (Operation *user : values.pop_back_val().getUsers()) {
      if (familyOf(user) == Family::View)
        values.push_back(user->getResult(0));
      if (isa<ReturnOp>(user))
        continue; // Reads the value before the program writes any state.
      Operation *outer = train.getBlock().findAncestorOpInBlock(*user);
      if (!last || last->isBeforeInBlock(outer))
        last = outer;
    }
  return last;
}

/// Moves the updates to the host. Each update waits for its gradient only after
/// the copies of further gradients have begun, so that copies overlap with the
/// backward pass.
void StateOffloader::moveUpdates() {
  ReturnOp end = train.getReturn();
  SmallVector<std::pair<Operation *, size_t>> copies;
  for (auto [i, update] : llvm::enumerate(updates))
    for (OpOperand &operand : update.op->getOpOperands()) {
      Value value = operand.get();
      if (tensorTypeOf(value).getRank() == 0 || value.getDefiningOp<ReadOp>())
        continue;
      copies.push_back({beginOut(value), i});
      builder.setInsertionPoint(update.op);
      operand.set(CopyWaitOp::create(builder, value.getLoc(), value.getType(),
                                     copies.back().first->getResult(0), value));
    }
  llvm::sort(copies, [](const auto &a, const auto &b) {
    return a.first->isBeforeInBlock(b.first);
  });
  for (auto [i, copy] : llvm::enumerate(copies)) {
    Update &update = updates[copy.second];
    // Move the waits before the update and the writes after it as well.
    Operation *anchor = i + kGradientsUnderWay < copies.size()
                            ? copies[i + kGradientsUnderWay].first
                            : end.getOperation();
    if (anchor->isBeforeInBlock(update.op))
      continue;
    SmallVector<Operation *> moving;
    for (Value operand : update.op->getOperands())
      if (auto wait = operand.getDefiningOp<CopyWaitOp>())
        moving.push_back(wait);
    moving.push_back(update.op);
    for (Operation *user : update.op->getUsers())
      moving.push_back(user);
    for (Operation *op : moving)
      if (op->isBeforeInBlock(anchor))
        op->moveBefore(anchor);
  }
  SymbolTable symbols(module);
  for (Update &update : updates) {
    update.op->setAttr("host", builder.getUnitAttr());
    for (StateOp state : module.getOps<StateOp>())
      if (state.getOf() == update.parameter.getSymName() &&
          state.getRole() == Role::Optimizer)
        state.setHost(true);
  }
}

/// Keeps the updates on the device, and copies their results to the host one
/// after the other.
void StateOffloader::sendBack() {
  CopyWaitOp before;
  for (Update &update : updates) {
    Value value = update.write.getValue();
    // Only one copy is in progress at a time, so that results can share a slot.
    if (before)
      before->moveBefore(update.op);
    builder.setInsertionPointAfterValue(value);
    auto copy =
        CopyOutOp::create(builder, value.getLoc(), value.getType(), value);
    builder.setInsertionPoint(train.getReturn());
    before = CopyWaitOp::create(builder, value.getLoc(), value.getType(),
                                copy.getResult(), value);
    update.write.getValueMutable().assign(before.getResult());
    update.write->moveBefore(train.getReturn());
  }
}

/// Adds a mirror of each parameter on the device, and replaces the reads of the
/// parameter by reads of the mirror.
void StateOffloader::addMirrors() {
  SymbolTable symbols(module);
  for (Update &update : updates) {
    StateOp parameter = update.parameter;
    Location loc = parameter.getLoc();
    builder.setInsertionPointAfter(parameter);
    auto mirror = StateOp::create(
        builder, loc, builder.getStringAttr(parameter.getSymName() + ".device"),
        TypeAttr::get(parameter.getType()),
        RoleAttr::get(builder.getContext(), Role::Mirror), parameter.getInit(),
        FlatSymbolRefAttr::get(parameter.getSymNameAttr()),
        /*slot=*/StringAttr(), /*source=*/StringAttr(),
        /*aliases=*/ArrayAttr(), /*copies=*/ArrayAttr(), /*frozen=*/UnitAttr(),
        /*host=*/UnitAttr());
    // If the model has a state of that name, the mirror gets another name.
    StringAttr name = symbols.insert(mirror);
    for (ProgramOp program : module.getOps<ProgramOp>())
      for (ReadOp read :
           llvm::make_early_inc_range(program.getBlock().getOps<ReadOp>())) {
        if (read.getStateAttr().getAttr() != parameter.getSymNameAttr())
          continue;
        builder.setInsertionPointAfter(read);
        auto onDevice =
            ReadOp::create(builder, read.getLoc(), read.getType(), name);
        read.getResult().replaceUsesWithIf(
            onDevice.getResult(),
            [&](OpOperand &use) { return use.getOwner() != update.op; });
        if (onDevice.getResult().use_empty())
          onDevice.erase();
        if (read.getResult().use_empty())
          read.erase();
      }
    Operation *last = lastReader(name);
    Value value = update.write.getValue();
    builder.setInsertionPointAfter(
        last && update.op->isBeforeInBlock(last) ? last : update.op);
    auto copy = CopyInOp::create(builder, loc, value.getType(), value);
    builder.setInsertionPoint(train.getReturn());
    Value there = CopyWaitOp::create(builder, loc, value.getType(),
                                     copy.getResult(), value);
    WriteOp::create(builder, loc, name, there);
  }
}

void StateOffloader::moveReadOnlyWeights() {
  llvm::DenseSet<StringAttr> staying;
  module.walk(
      [&](WriteOp write) { staying.insert(write.getStateAttr().getAttr()); });
  // Only ops that become commands get a copy of the state. A state that any
  // other op reads stays on the device.
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
  for (StateOp state : module.getOps<StateOp>())
    if ((state.getRole() == Role::Parameter ||
         state.getRole() == Role::Buffer) &&
        !staying.contains(state.getSymNameAttr()))
      state.setHost(true);
}

void StateOffloader::run() {
  findUpdates();
  for (Update &update : updates)
    update.parameter.setHost(true);
  if (optimizer)
    moveUpdates();
  else
    sendBack();
  if (parameters)
    moveReadOnlyWeights();
  else
    addMirrors();
}

namespace {

struct OffloadStatesPass : kiln::impl::OffloadStatesBase<OffloadStatesPass> {
  using OffloadStatesBase::OffloadStatesBase;

  void runOnOperation() override {
    if (!optimizer && !parameters)
      return;
    for (ProgramOp program : getOperation().getOps<ProgramOp>())
      if (program.getKind() == ProgramKind::Train)
        StateOffloader(getOperation(), program, optimizer, parameters).run();
  }
};

} // namespace
