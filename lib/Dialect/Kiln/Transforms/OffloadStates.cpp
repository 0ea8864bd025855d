//===- OffloadStates.cpp - States in host memory ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves states to the host, as their attributes `kiln.residency` require, by
// changing their types, and inserts copies of gradients and states. If the host
// updates a parameter:
//
//   %g            --> %f = copy_out %g  ...  %gh = copy_wait %f, %g
//   update(%p, %m, %v, %g)   --> update(%p, %m, %v, %gh), all on the host
//   write @w, %p1            --> write @w, %p1
//                                %c = copy_in %p1  ...  %d = copy_wait %c, %p1
//                                write @w.device, %d
//   other reads of @w        --> read @w.device
//
// The last two changes are made only for parameters with the residency
// `mirrored`, which have a copy on the device, @w.device. A read that an op on
// the device uses keeps its type; kiln-place-copies inserts the copies later.
// With ZeRO 1 and 2, an update reads the shard of a parameter, and its result
// is gathered on the device. If the host updates the shard, the parameter stays
// on the device:
//
//   %s = take_shard %p           --> %s = take_shard %p
//                                    %f = copy_out %s  ...  %h = copy_wait %f
//   %n = update(%s, %m, %v, %g)  --> %n = update(%h, %m, %v, %gh)
//                                    %c = copy_in %n  ...  %d = copy_wait %c
//   %w = all_gather %n           --> %w = all_gather %d
//   write @w, %w                 --> write @w, %w
//
// If the device updates a state that is stored on the host, the new value is
// copied to the host:
//
//   write @w, %p1            --> %f = copy_out %p1  ...  %h = copy_wait %f, %p1
//                                write @w, %h
//
//===----------------------------------------------------------------------===//

#include "CopyAverages.h"
#include "StateMirrors.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/StateResidency.h"
#include "kiln/Support/EvenMerge.h"

#include "llvm/ADT/SmallPtrSet.h"

#include <algorithm>
#include <deque>

namespace kiln {
#define GEN_PASS_DEF_OFFLOADSTATES
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

class StateOffloader {
public:
  /// See orderDeviceUpdates() for `spreads`.
  StateOffloader(ModuleOp module, ProgramOp train, bool spreads)
      : module(module), train(train), builder(module.getContext()),
        spreads(spreads) {}
  void run();

private:
  bool moveStates();
  void moveToHost(StateOp state);
  CopyOutOp beginOut(Value value);
  Value waitFor(Operation *copy);
  void returnToDevice(Operation *update);
  void orderUpdates();
  void takeShards();
  void orderDeviceUpdates();
  void moveUpdates();
  CopyWaitOp sendBack(WriteOp write);
  void sendBack();
  void sendGathered();
  bool needsHost(OpOperand &use);
  void assignReads();

  ModuleOp module;
  ProgramOp train;
  OpBuilder builder;
  bool spreads;
  /// `updates` run on the host. `deviceUpdates` run on the device, but some of
  /// their states are stored on the host. Both are in program order;
  /// orderDeviceUpdates() sorts `deviceUpdates` by the bytes to copy.
  std::vector<StateUpdate> updates, deviceUpdates;
  /// The op before which the updates on the host are inserted whose gradients
  /// are copied last; null: the end of the program.
  Operation *lastOnHost = nullptr;
  /// Parameters that the host updates and that have a mirror, that is, a copy
  /// on the device.
  llvm::DenseSet<StringAttr> mirrored;
  llvm::DenseSet<StringAttr> movedStates;
  llvm::SmallPtrSet<Operation *, 16> updatesOnHost;
};

} // namespace

/// Moves states to the host as their attributes `kiln.residency` require.
/// Returns false if no state has this attribute.
bool StateOffloader::moveStates() {
  llvm::DenseMap<StringAttr, Residency> residencies;
  for (StateOp state : module.getOps<StateOp>())
    if (auto residency =
            dyn_cast_or_null<ResidencyAttr>(state->removeAttr(kResidencyAttr)))
      residencies[state.getSymNameAttr()] = residency.getValue();
  if (residencies.empty())
    return false;
  for (StateUpdate &update : findUpdates(module, train)) {
    StateOp used = update.getUsed();
    auto found = residencies.find(used.getSymNameAttr());
    bool moves = found != residencies.end();
    bool onHost = moves && found->second != Residency::Host;
    bool hasMirror = moves && found->second == Residency::Mirrored;
    // A parameter with a mirror has a copy on the device. If `used` is a
    // working copy (which programs read instead of the parameter), or is
    // gathered on the device, it is itself this copy, so it stays there.
    if (moves && !(hasMirror && (update.copy || update.isGathered)))
      moveToHost(used);
    if (hasMirror && !update.isGathered)
      mirrored.insert(update.parameter.getSymNameAttr());
    for (StateOp state : update.getUpdateStates())
      if (onHost || residencies.contains(state.getSymNameAttr())) {
        moveToHost(state);
        moves = true;
      }
    if (onHost)
      updatesOnHost.insert(update.op);
    if (moves)
      (onHost ? updates : deviceUpdates).push_back(update);
  }
  for (StateOp weight : readOnlyWeights(module))
    if (residencies.contains(weight.getSymNameAttr()))
      moveToHost(weight);
  return true;
}

void StateOffloader::moveToHost(StateOp state) {
  state.setType(inMemory(state.getType(), MemorySpace::Host));
  movedStates.insert(state.getSymNameAttr());
}

/// Returns the first all-reduce or reduce-scatter after `sum` that is over the
/// same axis of the mesh and whose result is not a scalar, or null.
static Operation *nextSum(Operation *sum) {
  for (Operation *op = sum; (op = op->getNextNode());)
    if (isa<AllReduceOp, ReduceScatterOp>(op) &&
        op->getAttr("axis") == sum->getAttr("axis") &&
        tensorTypeOf(op->getResult(0)).getRank() > 0)
      return op;
  return nullptr;
}

/// Starts a copy of a value to the host directly after its definition. The copy
/// of a result of an all-reduce or reduce-scatter starts after the next such
/// collective, so that the first collective overlaps with the ops between the
/// two. Such copies start in the order of their collectives.
CopyOutOp StateOffloader::beginOut(Value value) {
  builder.setInsertionPointAfterValue(value);
  Operation *sum = value.getDefiningOp();
  if (isa_and_nonnull<AllReduceOp, ReduceScatterOp>(sum)) {
    if (Operation *next = nextSum(sum))
      builder.setInsertionPointAfter(next);
    for (Operation *op = &*builder.getInsertionPoint();
         auto copy = dyn_cast<CopyOutOp>(op); op = op->getNextNode()) {
      Operation *other = copy.getOperand().getDefiningOp();
      if (!other || sum->isBeforeInBlock(other))
        break;
      builder.setInsertionPointAfter(copy);
    }
  }
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
    auto copy = CopyInOp::create(
        builder, result.getLoc(),
        inMemory(result.getType(), MemorySpace::Device), result);
    if (uses.size() == 1 && isa<AllGatherOp>(uses.front()->getOwner()))
      builder.setInsertionPoint(uses.front()->getOwner());
    Value there = waitFor(copy);
    for (OpOperand *use : uses)
      use->set(there);
  }
}

/// If `value` is a sum over micro-batches, returns the op in the body of the
/// kiln.microbatches that completes the sum. Otherwise returns null.
static Operation *completionOf(Value value) {
  auto microbatches = value.getDefiningOp<MicrobatchesOp>();
  if (!microbatches)
    return nullptr;
  unsigned number = cast<OpResult>(value).getResultNumber();
  return microbatches.getYieldedSums()[number].getDefiningOp();
}

/// If each update reads a gradient that is a sum over micro-batches, moves the
/// updates into the order in which the last micro-batch completes the
/// gradients. The copies of the gradients then complete in the order in which
/// the updates need them.
void StateOffloader::orderUpdates() {
  auto completion = [](const StateUpdate &update) -> Operation * {
    for (Value operand : update.op->getOperands())
      if (Operation *op = completionOf(operand))
        return op;
    return nullptr;
  };
  Block *body = nullptr;
  for (const StateUpdate &update : updates) {
    Operation *done = completion(update);
    // An update whose results other ops read cannot move to the end.
    if (!done || (body && done->getBlock() != body) ||
        !llvm::all_of(update.op->getUsers(), llvm::IsaPred<WriteOp, ReturnOp>))
      return;
    body = done->getBlock();
  }
  llvm::sort(updates, [&](const StateUpdate &a, const StateUpdate &b) {
    Operation *doneA = completion(a), *doneB = completion(b);
    return doneA == doneB ? a.op->isBeforeInBlock(b.op)
                          : doneA->isBeforeInBlock(doneB);
  });
  for (StateUpdate &update : updates) {
    update.op->moveBefore(train.getReturn());
    for (Operation *user : update.op->getUsers())
      if (isa<WriteOp>(user))
        user->moveBefore(train.getReturn());
  }
}

/// Returns true if an update depends on sums over micro-batches other than the
/// gradients that are copied for it. For example, an update with clipping
/// depends on the norm of all gradients.
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

/// Returns true if `value` is this rank's shard of a state.
static bool isShardOfState(Value value) {
  return value.getDefiningOp<TakeShardOp>() && readOf(value);
}

/// Places each kiln.take_shard that an update on the host reads. If the
/// parameter is on the host, its shard is taken there. Otherwise the shard is
/// taken on the device, and its copy to the host starts kGradientsUnderWay
/// updates before the update that reads it.
void StateOffloader::takeShards() {
  SmallVector<Operation *> ops;
  for (const StateUpdate &update : updates)
    ops.push_back(update.op);
  llvm::sort(ops, [](Operation *a, Operation *b) {
    return a != b && a->isBeforeInBlock(b);
  });
  for (auto [i, op] : llvm::enumerate(ops))
    for (OpOperand &operand : op->getOpOperands()) {
      if (!isShardOfState(operand.get()))
        continue;
      auto take = operand.get().getDefiningOp<TakeShardOp>();
      if (movedStates.contains(readOf(take).getStateAttr().getAttr())) {
        setMemory(take.getShard(), MemorySpace::Host);
        continue;
      }
      take->moveBefore(ops[i - std::min(i, kGradientsUnderWay)]);
      CopyOutOp copy = beginOut(take.getShard());
      builder.setInsertionPoint(op);
      operand.set(waitFor(copy));
    }
}

/// Moves the updates to the host. The wait for copy i of a gradient, and the
/// update that reads the copy, directly precede the start of copy
/// i + kGradientsUnderWay, so that copies overlap with the backward pass. If
/// the update also depends on later gradients, as when gradients are clipped by
/// their global norm, only the wait is moved: the gradient then occupies host
/// memory until the update, instead of device memory.
///
/// If the gradients are sums over micro-batches, all of them are results of
/// kiln.microbatches, so all copies could start directly after this op. If no
/// update depends on several sums, a copy starts only after the updates of
/// earlier gradients, so that few gradients are on the host at a time.
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
      if (tensorTypeOf(value).getRank() > 0 && !isShardOfState(value) &&
          !(read && movedStates.contains(read.getStateAttr().getAttr())))
        gradients.push_back({&operand, i});
    }
  // All sums over micro-batches are results of one op. If several copies are
  // inserted directly after the same op, the copy that is inserted last comes
  // first. Insert the copies in reverse order, so that they are finally in the
  // order of the updates.
  auto isCompletion = [](const Gradient &gradient) {
    return completionOf(gradient.operand->get()) != nullptr;
  };
  bool isReversed = llvm::any_of(gradients, isCompletion);
  // If only some gradients are sums over micro-batches, the others are sums
  // over ranks, which are complete after the micro-batches.
  bool areCompletions = llvm::all_of(gradients, isCompletion);
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
    StateUpdate &update = updates[copy.second];
    // Together with the update, move the waits for its operands, and the
    // all-gathers and writes of its results.
    Operation *anchor = i + kGradientsUnderWay < copies.size()
                            ? copies[i + kGradientsUnderWay].first
                        : lastOnHost ? lastOnHost
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
    for (Operation *user : update.op->getUsers()) {
      moving.push_back(user);
      if (isa<AllGatherOp>(user))
        llvm::append_range(moving, user->getUsers());
    }
    for (Operation *op : moving)
      if (op->isBeforeInBlock(anchor))
        op->moveBefore(anchor);
  }
  if (isReversed && areCompletions &&
      !llvm::any_of(updates, [](const StateUpdate &update) {
        return readsOtherSums(update.op);
      }))
    for (size_t i = kGradientsUnderWay; i < copies.size(); ++i) {
      Operation *before = copies[i - kGradientsUnderWay + 1].first;
      copies[i].first->moveBefore(*before->getResult(0).user_begin());
    }
  takeShards();
  for (StateUpdate &update : updates) {
    for (Value result : update.op->getResults())
      setMemory(result, MemorySpace::Host);
    returnToDevice(update.op);
  }
}

/// Orders `deviceUpdates`, the updates on the device of states that are stored
/// on the host. The updates with the most bytes to copy come first, because
/// nothing overlaps with the last copies. Does nothing unless the updates are
/// the last ops of the program, as when gradients are clipped by their global
/// norm.
///
/// If `spreads` is false, `deviceUpdates` follow all other updates. Their
/// copies then use memory that the other updates have freed.
///
/// If `spreads` is true, all updates on the device follow those on the host,
/// which can then start early, and `deviceUpdates` are spread evenly among the
/// others. Their copies then overlap with the other updates, but may need more
/// memory. The updates on the host whose gradients are copied last directly
/// precede the first one of `deviceUpdates`: the program waits for these
/// copies, which then overlap with other updates, and the states that are
/// copied to the device can use the memory of the gradients.
void StateOffloader::orderDeviceUpdates() {
  std::vector<StateUpdate> others = findUpdates(module, train);
  if (deviceUpdates.empty() || !updatesComeLast(train, others))
    return;
  auto movedBytes = [&](const StateUpdate &update) {
    int64_t bytes = 0;
    for (Operation *user : update.op->getUsers())
      if (auto write = dyn_cast<WriteOp>(user);
          write && movedStates.contains(write.getStateAttr().getAttr()))
        bytes += bytesOf(write.getValue().getType());
    return bytes;
  };
  llvm::sort(deviceUpdates, [&](const StateUpdate &a, const StateUpdate &b) {
    int64_t bytesOfA = movedBytes(a), bytesOfB = movedBytes(b);
    return bytesOfA == bytesOfB ? a.op->isBeforeInBlock(b.op)
                                : bytesOfA > bytesOfB;
  });
  llvm::SmallPtrSet<Operation *, 16> taken;
  for (const std::vector<StateUpdate> *list : {&updates, &deviceUpdates})
    for (const StateUpdate &update : *list)
      taken.insert(update.op);
  llvm::erase_if(others, [&](const StateUpdate &update) {
    return !spreads || taken.contains(update.op);
  });
  std::vector<int64_t> weights, movedWeights;
  for (const StateUpdate &update : others)
    weights.push_back(bytesOf(update.getUsed().getType()));
  for (const StateUpdate &update : deviceUpdates)
    movedWeights.push_back(movedBytes(update));
  auto other = others.begin(), moved = deviceUpdates.begin();
  for (bool isMoved : support::mergeEvenly(weights, movedWeights)) {
    Operation *op = isMoved ? (moved++)->op : (other++)->op;
    op->moveBefore(train.getReturn());
    for (Operation *user : op->getUsers())
      if (isa<WriteOp>(user))
        user->moveBefore(train.getReturn());
  }
  lastOnHost = deviceUpdates.front().op;
}

/// Starts a copy to the host of the value that `write` writes. Moves `write` to
/// the end of the program, and inserts the wait for the copy directly before
/// it. Returns the wait.
CopyWaitOp StateOffloader::sendBack(WriteOp write) {
  CopyOutOp copy = beginOut(write.getValue());
  builder.setInsertionPoint(train.getReturn());
  Value there = waitFor(copy);
  write.getValueMutable().assign(there);
  write->moveBefore(train.getReturn());
  return there.getDefiningOp<CopyWaitOp>();
}

/// Copies the results of updates on the device to the host. The waits for the
/// copies of an update follow the next kUpdatesUnderWay updates, so that the
/// results of later updates can use the same memory.
void StateOffloader::sendBack() {
  std::deque<SmallVector<CopyWaitOp>> underWay;
  for (StateUpdate &update : deviceUpdates) {
    if (underWay.size() > kUpdatesUnderWay) {
      for (CopyWaitOp wait : underWay.front())
        wait->moveBefore(update.op);
      underWay.pop_front();
    }
    SmallVector<CopyWaitOp> &waits = underWay.emplace_back();
    for (Operation *user : llvm::make_early_inc_range(update.op->getUsers())) {
      auto write = dyn_cast<WriteOp>(user);
      if (!write || !movedStates.contains(write.getStateAttr().getAttr()))
        continue;
      waits.push_back(sendBack(write));
    }
  }
}

/// If a state on the host gets its new value from an all-gather on the device,
/// copies the result of the all-gather to the host. All-gather
/// i + kUpdatesUnderWay follows the waits for the copies of the results of
/// all-gather i, counting only all-gathers of such states.
void StateOffloader::sendGathered() {
  std::deque<SmallVector<CopyWaitOp>> underWay;
  SmallVector<AllGatherOp> gathers(train.getBlock().getOps<AllGatherOp>());
  for (AllGatherOp gather : gathers) {
    SmallVector<WriteOp> writes;
    for (Operation *user : gather->getUsers())
      if (auto write = dyn_cast<WriteOp>(user);
          write && movedStates.contains(write.getStateAttr().getAttr()))
        writes.push_back(write);
    if (writes.empty())
      continue;
    if (underWay.size() == kUpdatesUnderWay) {
      for (CopyWaitOp wait : underWay.front())
        wait->moveBefore(gather);
      underWay.pop_front();
    }
    underWay.emplace_back();
    for (WriteOp write : writes)
      underWay.back().push_back(sendBack(write));
  }
}

/// Returns true if a use requires the value on the host. The user is then an
/// update on the host, a kiln.take_shard for such an update, a write of a state
/// on the host, or a write of the working copy of a parameter that the host
/// updates. addMirrors() replaces the write of a working copy.
bool StateOffloader::needsHost(OpOperand &use) {
  Operation *user = use.getOwner();
  if (auto write = dyn_cast<WriteOp>(user))
    return movedStates.contains(write.getStateAttr().getAttr()) ||
           updatesOnHost.contains(write.getValue().getDefiningOp());
  if (auto take = dyn_cast<TakeShardOp>(user))
    return memoryOf(take.getShard().getType()) == MemorySpace::Host;
  return updatesOnHost.contains(user);
}

/// Makes the type of each read of a state on the host specify the memory (host
/// or device) that the users of the read require. If a read has users in both
/// memories, adds a second read for the users on the host.
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
  if (!moveStates())
    return;
  orderUpdates();
  if (spreads)
    orderDeviceUpdates();
  moveUpdates();
  if (!spreads)
    orderDeviceUpdates();
  sendBack();
  sendGathered();
  // Copies in one direction are executed in order. Copies to mirrors (copies of
  // parameters on the device) wait for updates on the host. If the device
  // updates states that are stored on the host, place the copies to mirrors at
  // the end, so that they do not delay the copies of these states.
  addMirrors(train, updates, mirrored, /*atEnd=*/!deviceUpdates.empty());
  copyAverages(module, movedStates);
  assignReads();
}

namespace {

struct OffloadStatesPass : kiln::impl::OffloadStatesBase<OffloadStatesPass> {
  using OffloadStatesBase::OffloadStatesBase;

  void runOnOperation() override {
    ResidencyShares shares = {optimizer, moments, parameters};
    for (double share : {shares.optimizer, shares.moments, shares.parameters})
      if (!(share >= 0 && share <= 1)) {
        emitError(getOperation().getLoc(), "a share of kiln-offload-states is ")
            << share << ", expected at least 0 and at most 1";
        return signalPassFailure();
      }
    for (ProgramOp program : getOperation().getOps<ProgramOp>())
      if (program.getKind() == ProgramKind::Train) {
        if (shares.any())
          assignResidency(getOperation(), program, shares);
        // The planner, which sets the residencies itself, knows whether the
        // memory suffices.
        StateOffloader(getOperation(), program, /*spreads=*/!shares.any())
            .run();
      }
  }
};

} // namespace
