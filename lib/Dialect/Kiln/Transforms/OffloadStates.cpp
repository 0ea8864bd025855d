//===- OffloadStates.cpp - States in host memory ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves states to the host by changing their types, and inserts copies of
// gradients and parameters. With the optimizer on the host:
//
//   %g            --> %f = copy_out %g  ...  %gh = copy_wait %f, %g
//   update(%p, %m, %v, %g)   --> update(%p, %m, %v, %gh), all on the host
//   write @w, %p1            --> write @w, %p1
//                                %c = copy_in %p1  ...  %d = copy_wait %c, %p1
//                                write @w.device, %d
//   other reads of @w        --> read @w.device
//
// With the parameters on the host, parameters and buffers that no program
// writes, such as frozen parameters, also move. A read that an op on the device
// uses keeps its type; kiln-place-copies inserts the copies later.
//
// An op is an update if a result of the op is written to a state, and the
// operand that is tied to this result is a read of the same state.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>

namespace kiln {
#define GEN_PASS_DEF_OFFLOADSTATES
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// The copy of a gradient is waited for only after this number of later copies
/// of gradients have started.
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
  void moveToHost(StateOp state);
  CopyOutOp beginOut(Value value);
  Value waitFor(Operation *copy);
  void returnToDevice(Operation *update);
  void orderUpdates();
  void moveUpdates();
  void sendBack();
  void addMirrors();
  void moveReadOnlyWeights();
  bool needsHost(OpOperand &use);
  void assignReads();
  Operation *lastReader(StringAttr state);

  ModuleOp module;
  ProgramOp train;
  bool optimizer, parameters;
  OpBuilder builder;
  std::vector<Update> updates; ///< Updates in program order.
  llvm::DenseSet<StringAttr> movedStates;
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

void StateOffloader::moveToHost(StateOp state) {
  state.setType(inMemory(state.getType(), MemorySpace::Host));
  movedStates.insert(state.getSymNameAttr());
}

/// Starts a copy of a value to the host directly after its definition.
CopyOutOp StateOffloader::beginOut(Value value) {
  builder.setInsertionPointAfterValue(value);
  return CopyOutOp::create(builder, value.getLoc(),
                           inMemory(value.getType(), MemorySpace::Host), value);
}

/// Waits for a copy at the insertion point.
Value StateOffloader::waitFor(Operation *copy) {
  return CopyWaitOp::create(builder, copy->getLoc(),
                            copy->getResult(0).getType(), copy->getResult(0),
                            copy->getOperand(0));
}

/// Copies the results of an update on the host back to the device for all users
/// that do not require them on the host.
void StateOffloader::returnToDevice(Operation *update) {
  for (Value result : update->getResults()) {
    SmallVector<OpOperand *> uses;
    for (OpOperand &use : result.getUses())
      if (!needsHost(use))
        uses.push_back(&use);
    if (uses.empty())
      continue;
    builder.setInsertionPointAfter(update);
    Value there = waitFor(CopyInOp::create(
        builder, result.getLoc(),
        inMemory(result.getType(), MemorySpace::Device), result));
    for (OpOperand *use : uses)
      use->set(there);
  }
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
        continue; // A return yields the entry value of a state even if a write
                  // precedes the return.
      Operation *outer = train.getBlock().findAncestorOpInBlock(*user);
      if (!last || last->isBeforeInBlock(outer))
        last = outer;
    }
  return last;
}

/// Returns the op in the body of micro-batches that completes a sum over them,
/// or null if `value` is no such sum.
static Operation *completionOf(Value value) {
  auto microbatches = value.getDefiningOp<MicrobatchesOp>();
  if (!microbatches)
    return nullptr;
  unsigned number = cast<OpResult>(value).getResultNumber();
  return microbatches.getYieldedSums()[number].getDefiningOp();
}

/// If each update reads a gradient that is a sum over micro-batches, moves the
/// updates into the order in which the last micro-batch completes the
/// gradients. Their copies then complete in the order in which the updates need
/// them.
void StateOffloader::orderUpdates() {
  auto completion = [](const Update &update) -> Operation * {
    for (Value operand : update.op->getOperands())
      if (Operation *op = completionOf(operand))
        return op;
    return nullptr;
  };
  Block *body = nullptr;
  for (const Update &update : updates) {
    Operation *done = completion(update);
    // An update whose results other ops read cannot move to the end.
    if (!done || (body && done->getBlock() != body) ||
        !llvm::all_of(update.op->getUsers(), llvm::IsaPred<WriteOp, ReturnOp>))
      return;
    body = done->getBlock();
  }
  llvm::sort(updates, [&](const Update &a, const Update &b) {
    Operation *doneA = completion(a), *doneB = completion(b);
    return doneA == doneB ? a.op->isBeforeInBlock(b.op)
                          : doneA->isBeforeInBlock(doneB);
  });
  for (Update &update : updates) {
    update.op->moveBefore(train.getReturn());
    for (Operation *user : update.op->getUsers())
      if (isa<WriteOp>(user))
        user->moveBefore(train.getReturn());
  }
}

/// Returns true if an update depends on sums over micro-batches in addition to
/// the gradients that are copied for it, such as on the norm of all gradients.
static bool readsOtherSums(Operation *update) {
  SmallVector<Value> values;
  for (Value operand : update->getOperands())
    if (!operand.getDefiningOp<CopyWaitOp>())
      values.push_back(operand);
  llvm::SmallPtrSet<Operation *, 16> visited;
  while (!values.empty()) {
    Operation *op = values.pop_back_val().getDefiningOp();
    if (isa_and_nonnull<MicrobatchesOp>(op))
      return true;
    if (op && visited.insert(op).second)
      llvm::append_range(values, op->getOperands());
  }
  return false;
}

/// Moves the updates to the host. The copy of a gradient is waited for only
/// after the next kGradientsUnderWay copies of gradients have started, so that
/// copies overlap with the backward pass. The update follows this wait, unless
/// it also depends on later gradients, as with the norm of all gradients. Its
/// gradient then stays on the host, not on the device. All copies of sums
/// over micro-batches could start at once; unless an update depends on several
/// sums, a copy starts only after the updates of earlier gradients, so that few
/// gradients are on the host at a time.
void StateOffloader::moveUpdates() {
  ReturnOp end = train.getReturn();
  struct Gradient {
    OpOperand *operand;
    size_t update;
  };
  SmallVector<Gradient> gradients;
  for (auto [i, update] : llvm::enumerate(updates))
    for (OpOperand &operand : update.op->getOpOperands()) {
      Value value = operand.get();
      auto read = value.getDefiningOp<ReadOp>();
      if (tensorTypeOf(value).getRank() > 0 &&
          !(read && movedStates.contains(read.getStateAttr().getAttr())))
        gradients.push_back({&operand, i});
    }
  // All sums over micro-batches are results of one op. Of copies that are
  // inserted after the same op, the one that is inserted last is the first.
  bool isReversed = llvm::any_of(gradients, [](const Gradient &gradient) {
    return completionOf(gradient.operand->get());
  });
  if (isReversed)
    std::reverse(gradients.begin(), gradients.end());
  SmallVector<std::pair<Operation *, size_t>> copies;
  for (auto [operand, i] : gradients) {
    copies.push_back({beginOut(operand->get()), i});
    builder.setInsertionPoint(updates[i].op);
    operand->set(waitFor(copies.back().first));
  }
  llvm::sort(copies, [](const auto &a, const auto &b) {
    return a.first->isBeforeInBlock(b.first);
  });
  for (auto [i, copy] : llvm::enumerate(copies)) {
    Update &update = updates[copy.second];
    // Together with the update, move the waits for its operands and the writes
    // of its results.
    Operation *anchor = i + kGradientsUnderWay < copies.size()
                            ? copies[i + kGradientsUnderWay].first
                            : end.getOperation();
    if (anchor->isBeforeInBlock(update.op)) {
      Operation *wait = *copy.first->getResult(0).user_begin();
      if (!isReversed && anchor->isBeforeInBlock(wait))
        wait->moveBefore(anchor);
      continue;
    }
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
  if (isReversed && !llvm::any_of(updates, [](const Update &update) {
        return readsOtherSums(update.op);
      }))
    for (size_t i = kGradientsUnderWay; i < copies.size(); ++i) {
      Operation *before = copies[i - kGradientsUnderWay + 1].first;
      copies[i].first->moveBefore(*before->getResult(0).user_begin());
    }
  for (Update &update : updates) {
    for (Value result : update.op->getResults())
      setMemory(result, MemorySpace::Host);
    returnToDevice(update.op);
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
    CopyOutOp copy = beginOut(value);
    builder.setInsertionPoint(train.getReturn());
    before = waitFor(copy).getDefiningOp<CopyWaitOp>();
    update.write.getValueMutable().assign(before.getResult());
    update.write->moveBefore(train.getReturn());
  }
}

/// Adds a state on the device for each parameter, the mirror of the parameter,
/// and replaces the reads of the parameter by reads of the mirror.
void StateOffloader::addMirrors() {
  SymbolTable symbols(module);
  for (Update &update : updates) {
    StateOp parameter = update.parameter;
    Location loc = parameter.getLoc();
    builder.setInsertionPointAfter(parameter);
    auto mirror = StateOp::create(
        builder, loc, builder.getStringAttr(parameter.getSymName() + ".device"),
        TypeAttr::get(inMemory(parameter.getType(), MemorySpace::Device)),
        RoleAttr::get(builder.getContext(), Role::Mirror), parameter.getInit(),
        FlatSymbolRefAttr::get(parameter.getSymNameAttr()),
        /*slot=*/StringAttr(), /*source=*/StringAttr(),
        /*aliases=*/ArrayAttr(), /*copies=*/ArrayAttr(),
        /*frozen=*/UnitAttr());
    // If the model already has a state with the symbol of the mirror, insert()
    // renames the mirror.
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
    auto copy = CopyInOp::create(builder, loc, mirror.getType(), value);
    builder.setInsertionPoint(train.getReturn());
    WriteOp::create(builder, loc, name, waitFor(copy));
  }
}

void StateOffloader::moveReadOnlyWeights() {
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
  for (StateOp state : module.getOps<StateOp>())
    if ((state.getRole() == Role::Parameter ||
         state.getRole() == Role::Buffer) &&
        !staying.contains(state.getSymNameAttr()))
      moveToHost(state);
}

/// Returns true if a use requires the value on the host: the user is an update
/// on the host or a write of a state on the host.
bool StateOffloader::needsHost(OpOperand &use) {
  Operation *user = use.getOwner();
  if (auto write = dyn_cast<WriteOp>(user))
    return movedStates.contains(write.getStateAttr().getAttr());
  return optimizer && llvm::any_of(updates, [&](const Update &update) {
           return update.op == user;
         });
}

/// Sets the type of each read of a state on the host to the memory that its
/// users require. If a read has users in both memories, adds a second read for
/// the users on the host.
void StateOffloader::assignReads() {
  for (ProgramOp program : module.getOps<ProgramOp>())
    for (ReadOp read :
         llvm::make_early_inc_range(program.getBlock().getOps<ReadOp>())) {
      if (!movedStates.contains(read.getStateAttr().getAttr()))
        continue;
      Value value = read.getResult();
      bool isNeededOnDevice = !llvm::all_of(
          value.getUses(), [&](OpOperand &use) { return needsHost(use); });
      if (!isNeededOnDevice) {
        setMemory(value, MemorySpace::Host);
      } else if (llvm::any_of(value.getUses(),
                              [&](OpOperand &use) { return needsHost(use); })) {
        // Insert the read at the beginning of the program, so that the number
        // of ops between any two existing ops does not change.
        builder.setInsertionPointToStart(&program.getBlock());
        auto onHost = ReadOp::create(
            builder, read.getLoc(),
            inMemory(value.getType(), MemorySpace::Host), read.getState());
        value.replaceUsesWithIf(onHost.getResult(),
                                [&](OpOperand &use) { return needsHost(use); });
      }
    }
}

void StateOffloader::run() {
  findUpdates();
  for (Update &update : updates) {
    moveToHost(update.parameter);
    for (StateOp state : module.getOps<StateOp>())
      if (optimizer && state.getOf() == update.parameter.getSymName() &&
          state.getRole() == Role::Optimizer)
        moveToHost(state);
  }
  orderUpdates();
  if (optimizer)
    moveUpdates();
  else
    sendBack();
  if (parameters)
    moveReadOnlyWeights();
  else
    addMirrors();
  assignReads();
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
