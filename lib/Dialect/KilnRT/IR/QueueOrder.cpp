//===- QueueOrder.cpp - Order of conflicting commands -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executes a program symbolically, in program order. Each queue has a vector
// clock with the number of commands of every queue that are known to be
// complete when the queue's next command begins. If two commands of different
// queues access the same bytes and at least one of them writes, the clock of
// the second command's queue must include the first command.
//
// Every access counts as an access to the whole slot or, if the slot has a ring
// of instances that micro-batches use in turn, to the whole instance. An order
// of micro-batches that is given by name, not as a list, is replaced by an
// order of at most 9 micro-batches (SegmentOrder::shortened()), because more
// micro-batches have no other conflicts.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/ADT/MapVector.h"

#include <map>
#include <utility>

using namespace mlir;
using namespace kiln;
using namespace kiln::abi;
using namespace kiln::rt;

namespace {

/// A number of commands for each queue. In a vector clock, these are the
/// commands that are known to be complete.
using Clock = SmallVector<int64_t, 4>;

/// The last accesses to a range of bytes. For each queue, `readers` has the
/// last command of the queue that read the range, and `writers` has the last
/// one that wrote it. `number` is the number of the command in its queue, or 0
/// if there is no such command.
struct Touches {
  struct Entry {
    int64_t number = 0;
    Operation *command = nullptr;
  };
  SmallVector<Entry, 4> readers, writers;
};

/// Maps the bytes of one memory to their last accesses. An entry extends from
/// its key up to the key of the next entry.
class TouchMap {
public:
  explicit TouchMap(size_t queues) {
    Touches none;
    none.readers.resize(queues);
    none.writers.resize(queues);
    entries.emplace(0, none);
  }
  template <typename Visitor>
  void forEach(int64_t begin, int64_t end, Visitor &&visit) {
    auto first = split(begin), last = split(end);
    for (; first != last; ++first)
      visit(first->second);
  }

private:
  using Map = std::map<int64_t, Touches>;
  Map::iterator split(int64_t at) {
    auto next = entries.upper_bound(at);
    auto found = std::prev(next);
    return found->first == at ? found
                              : entries.emplace_hint(next, at, found->second);
  }
  Map entries;
};

/// The latest signal of a token.
struct Signal {
  /// Vector clock of the command's queue, with the command counted as complete.
  Clock clock;
  Operation *command;
  size_t index;
  int64_t microbatch; ///< Micro-batch for which the command was executed.
  bool isAwaited = false;
};

class QueueOrder {
public:
  QueueOrder(rt::ProgramOp program, ArrayRef<Operation *> commands,
             int64_t owner);
  LogicalResult run();

private:
  LogicalResult step(size_t index);
  LogicalResult checkRing(Operation *command, Value token);
  LogicalResult wait(WaitOp wait, size_t index);
  LogicalResult touch(CommandOpInterface command, unsigned queue);
  LogicalResult reject(CommandOpInterface command, const MemoryAccess &access,
                       Operation *other, bool otherWrites);
  LogicalResult checkTransferLives(WaitOp wait, const Signal &signal,
                                   size_t index);
  LogicalResult rejectUnawaited(const Signal &signal) {
    return signal.command->emitOpError(
        "begins a transfer, but no kilnrt.wait waits for its token before the "
        "token is signaled again or the program ends");
  }
  unsigned queueOf(FlatSymbolRefAttr name) {
    return queues.lookup(name.getAttr());
  }
  void learn(unsigned queue, const Clock &clock) {
    for (auto [known, value] : llvm::zip(knows[queue], clock))
      known = std::max(known, value);
  }

  /// Returns the key of a token in `signals` for the current execution.
  std::pair<Value, int64_t> keyOf(Value token) const {
    return {token, token.getDefiningOp<TokenOp>().getRing() ? current.slot : 0};
  }

  ArrayRef<Operation *> commands;
  rt::ProgramOp program;
  int64_t owner; ///< The index of the rank that executes the program.
  DenseMap<StringAttr, unsigned> queues;
  SmallVector<Clock> knows; ///< The vector clock of each queue.
  Clock issued;
  /// The latest signal of each token or, for a token with an instance per
  /// micro-batch in flight, of each instance.
  llvm::MapVector<std::pair<Value, int64_t>, Signal> signals;
  std::optional<TouchMap> touches[2]; ///< Indexed by memory.
  std::optional<MicrobatchCommands> microbatches;
  /// The current execution of a forward or backward segment, or a default
  /// SegmentRun outside of micro-batches.
  SegmentRun current;
  /// The index of the last buffer instance (ring slot) that is used. It stands
  /// for all higher indices, because an order of many micro-batches is replaced
  /// by a shortened order, which uses fewer instances.
  int64_t lastSlot = 0;
  bool inMicrobatches = false;
};

} // namespace

QueueOrder::QueueOrder(rt::ProgramOp program, ArrayRef<Operation *> commands,
                       int64_t owner)
    : commands(commands), program(program), owner(owner),
      microbatches(microbatchesOf(program)) {
  for (auto queue : program->getParentOfType<ModuleOp>().getOps<QueueOp>())
    queues.try_emplace(queue.getSymNameAttr(), queues.size());
  issued.assign(queues.size(), 0);
  knows.assign(queues.size(), issued);
  for (std::optional<TouchMap> &map : touches)
    map.emplace(queues.size());
}

LogicalResult QueueOrder::reject(CommandOpInterface command,
                                 const MemoryAccess &access, Operation *other,
                                 bool otherWrites) {
  auto place = [](Operation *op) {
    return ("@" + cast<CommandOpInterface>(op).getQueueAttr().getValue()).str();
  };
  InFlightDiagnostic diagnostic =
      command->emitOpError()
      << (access.writes() ? "writes" : "reads") << " slot '"
      << slotOf(access.slot).getName()
      << "', but has no order with respect to a command on " << place(other)
      << (otherWrites ? " that writes" : " that reads")
      << " bytes of this slot: " << place(command)
      << " must wait for that command";
  diagnostic.attachNote(other->getLoc()) << "the other command is here";
  return diagnostic;
}

LogicalResult QueueOrder::touch(CommandOpInterface command, unsigned queue) {
  const Clock &known = knows[queue];
  for (const MemoryAccess &access : command.getAccesses()) {
    SlotOp slot = slotOf(access.slot);
    if (!exists(slot, owner))
      continue;
    int64_t begin = static_cast<int64_t>(slot.getOffset()) +
                    slot.getRingStride() * current.slot;
    // A slot with a ring has an instance for each micro-batch in flight. This
    // check replaces an order of many micro-batches by a shorter order, which
    // can use fewer instances. The last instance in use therefore stands for
    // itself and for all instances after it.
    auto bytes = static_cast<int64_t>(slot.getBytes());
    if (slot.getRing() && inMicrobatches && current.slot == lastSlot)
      bytes = slot.getTotalBytes() - slot.getRingStride() * current.slot;
    Operation *reader = nullptr, *writer = nullptr;
    touches[static_cast<int>(slot.getMemory())]->forEach(
        begin, begin + bytes, [&](Touches &last) {
          for (unsigned other = 0; other < known.size(); ++other) {
            if (other == queue)
              continue;
            if (last.writers[other].number > known[other])
              writer = last.writers[other].command;
            if (access.writes() && last.readers[other].number > known[other])
              reader = last.readers[other].command;
          }
          auto &own = access.writes() ? last.writers : last.readers;
          own[queue] = {issued[queue], command};
        });
    if (writer || reader)
      return reject(command, access, writer ? writer : reader,
                    writer != nullptr);
  }
  return success();
}

/// Verifies that the slots of a transfer are live until the first wait for the
/// transfer.
LogicalResult QueueOrder::checkTransferLives(WaitOp wait, const Signal &signal,
                                             size_t index) {
  // If the transfer starts in one micro-batch and the wait is executed in
  // another one, the transfer counts as in progress in all micro-batches.
  bool crosses = signal.index > index ||
                 (inMicrobatches &&
                  static_cast<int64_t>(signal.index) >= microbatches->forward &&
                  signal.microbatch != current.microbatch);
  int64_t first = crosses ? microbatches->forward : signal.index;
  int64_t last = crosses ? microbatches->end - 1 : index;
  for (const MemoryAccess &access :
       cast<CommandOpInterface>(signal.command).getAccesses()) {
    SlotOp slot = slotOf(access.slot);
    if (static_cast<int64_t>(slot.getFirst()) <= first &&
        last <= static_cast<int64_t>(slot.getLast()))
      continue;
    InFlightDiagnostic diagnostic =
        wait.emitOpError("waits, at command ")
        << index << ", for a transfer of slot '" << slot.getName()
        << "'; this slot is live from command " << slot.getFirst() << " to "
        << slot.getLast() << ", expected at least from " << first << " to "
        << last;
    diagnostic.attachNote(signal.command->getLoc())
        << "the transfer begins here";
    diagnostic.attachNote(slot.getLoc()) << "the slot is here";
    return diagnostic;
  }
  return success();
}

/// Verifies that only micro-batches use a token with a ring (an instance per
/// micro-batch in flight).
LogicalResult QueueOrder::checkRing(Operation *command, Value token) {
  if (inMicrobatches || !token.getDefiningOp<TokenOp>().getRing())
    return success();
  return command->emitOpError(
      "uses a token with a ring, but is not in kilnrt.microbatches");
}

LogicalResult QueueOrder::wait(WaitOp wait, size_t index) {
  if (failed(checkRing(wait, wait.getToken())))
    return failure();
  auto signal = signals.find(keyOf(wait.getToken()));
  if (signal == signals.end())
    return wait.emitOpError("waits for a token that no preceding command "
                            "signals, so this wait would never end");
  for (FlatSymbolRefAttr queue : wait.getQueues())
    learn(queueOf(queue), signal->second.clock);
  bool isFirst = !std::exchange(signal->second.isAwaited, true);
  return isFirst ? checkTransferLives(wait, signal->second, index) : success();
}

LogicalResult QueueOrder::step(size_t index) {
  Operation *op = commands[index];
  if (auto waiting = dyn_cast<WaitOp>(op))
    return wait(waiting, index);
  auto command = cast<CommandOpInterface>(op);
  unsigned queue = queueOf(command.getQueueAttr());
  if (ArrayAttr after = command.getAfterAttr())
    for (auto name : after.getAsRange<FlatSymbolRefAttr>()) {
      unsigned other = queueOf(name);
      learn(queue, knows[other]);
      knows[queue][other] = issued[other];
    }
  knows[queue][queue] = ++issued[queue];
  // If another rank owns the command, this rank does not execute it, but waits
  // for the queues in `after` nevertheless.
  int64_t only = ownerOf(command);
  if ((only == kNoOwner || only == owner) && failed(touch(command, queue)))
    return failure();
  if (Value token = command.getSignaledToken()) {
    if (failed(checkRing(op, token)))
      return failure();
    auto key = keyOf(token);
    if (auto known = signals.find(key);
        known != signals.end() && !known->second.isAwaited)
      return rejectUnawaited(known->second);
    signals.insert_or_assign(
        key, Signal{knows[queue], op, index, current.microbatch});
  }
  return success();
}

LogicalResult QueueOrder::run() {
  // A single queue executes its commands in order, so there is nothing to
  // verify.
  FlatSymbolRefAttr only;
  if (llvm::all_of(commands, [&](Operation *op) {
        auto command = dyn_cast<CommandOpInterface>(op);
        if (command && !only)
          only = command.getQueueAttr();
        return !command ||
               (!command.getSignaledToken() && !command.getAwaitedToken() &&
                command.getQueueAttr() == only);
      }))
    return success();
  std::vector<SegmentExecution> executions =
      executionsOf(program, /*shortened=*/true);
  for (const SegmentExecution &execution : executions)
    if (execution.run)
      lastSlot = std::max(lastSlot, execution.run->slot);
  for (const SegmentExecution &execution : executions) {
    current = execution.run.value_or(SegmentRun());
    inMicrobatches = execution.run.has_value();
    for (int64_t i = execution.begin; i < execution.end; ++i)
      if (isExecuted(commands[i], execution) && failed(step(i)))
        return failure();
  }
  for (auto &[token, signal] : signals)
    if (!signal.isAwaited)
      return rejectUnawaited(signal);
  return success();
}

LogicalResult rt::verifyQueueOrder(rt::ProgramOp program,
                                   ArrayRef<Operation *> commands,
                                   int64_t owner) {
  return QueueOrder(program, commands, owner).run();
}
