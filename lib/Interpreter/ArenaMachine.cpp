//===- ArenaMachine.cpp - Execution in a checked arena ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Relies on the guarantees of ScheduledProgram: all references are within their
// slots, and all slots are within the arena.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/RankGroup.h"
#include "kiln/Interpreter/ScheduledEngine.h"
#include "kiln/Interpreter/TensorBytes.h"
#include "kiln/Support/Mesh.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace mlir;
using namespace kiln::abi;

namespace kiln {

namespace {

class Machine {
public:
  Machine(const Interpreter &interpreter, const ScheduledProgram &program,
          InterpretedArena &arena);
  LogicalResult run();

private:
  using Writer = InterpretedArena::Writer;

  LogicalResult checkDisjoint();
  LogicalResult execute(const rt::SegmentExecution &next);
  LogicalResult execute(const ScheduledCommand &command);
  bool isAlive(unsigned slot, const SegmentRun &owner);
  LogicalResult checkAlive(Operation *op, unsigned slot,
                           const SegmentRun &owner);
  LogicalResult checkRead(Operation *op, const SlotTensor &tensor,
                          const SegmentRun &owner);
  void markWritten(const SlotTensor &tensor, const SegmentRun &owner);
  void mark(int64_t begin, int64_t end, Writer writer);
  void markSlot(unsigned index) {
    rt::SlotOp slot = program.slots[index];
    int64_t begin = program.addressOf(slot, current);
    mark(begin, begin + static_cast<int64_t>(slot.getBytes()),
         writerOf(index, current));
  }
  LogicalResult beginCopy(const ScheduledCommand &command);
  LogicalResult beginCollective(const ScheduledCommand &command);
  LogicalResult end(rt::WaitOp wait);
  /// Calls `body(begin, end)` with the byte range of each row of `tensor` in
  /// the arena, until `body` returns false.
  void forRows(const SlotTensor &tensor, const SegmentRun &owner,
               llvm::function_ref<bool(int64_t, int64_t)> body);
  char *bytesOf(const SlotTensor &tensor, const SegmentRun &owner) {
    return arena.bytes.data() + program.addressOf(tensor, owner);
  }
  char *bytesOf(const SlotTensor &tensor) { return bytesOf(tensor, current); }
  /// Returns the shadow value (the recorded last writer) of bytes that the
  /// micro-batch of `owner` has written through a slot.
  Writer writerOf(unsigned slot, const SegmentRun &owner) const {
    return {static_cast<int32_t>(slot) + 1,
            isPrivate[slot] ? static_cast<int32_t>(owner.microbatch) : -1};
  }
  /// Begins an error message about the running command.
  InFlightDiagnostic emitError(Operation *op) {
    InFlightDiagnostic diagnostic = op->emitOpError("is command ") << index;
    if (execution.run)
      diagnostic << " for micro-batch " << current.microbatch;
    return diagnostic;
  }

  /// Returns the end of the range of shadow entries for bytes up to `end`.
  /// Includes an entry that is only partly in the range: slots are aligned, so
  /// no other tensor uses the remaining bytes of this entry.
  int64_t endUnit(int64_t end) const {
    return (end + arena.unit - 1) / arena.unit;
  }

  const Interpreter &interpreter;
  const ScheduledProgram &program;
  InterpretedArena &arena;
  /// For each slot: true if its lifetime is within a micro-batch, so that no
  /// micro-batch may read what another micro-batch wrote to the slot.
  std::vector<bool> isPrivate;
  int64_t index = 0;              ///< Index of the running command.
  rt::SegmentExecution execution; ///< The execution of the running command.
  SegmentRun current;             ///< Segment and micro-batch of `execution`.
  DenseSet<int64_t> inFlight;     ///< The micro-batches in flight.
  /// A transfer in progress. `bytes` contains the contents that `from` had when
  /// the transfer began.
  struct Transfer {
    SlotTensor from, to;
    SegmentRun owner; ///< The run that began the transfer.
    std::vector<char> bytes;
    /// The collective that the ranks execute, or nullopt for a copy.
    std::optional<Collective> collective = std::nullopt;
    StringRef axis = {}; ///< Mesh axis of a collective.
    int64_t shardOwner = kNoOwner;
    /// False if another rank owns the shard, so that this rank has no memory
    /// for it.
    bool hasShard = true;
    bool readsSource() const {
      return hasShard || collective != Collective::AllGather;
    }
    bool writesTarget() const {
      return hasShard || collective != Collective::ReduceScatter;
    }
    /// Returns true if the contents of `from` are undefined until the end of
    /// the transfer.
    bool overwritesSource() const {
      return collective && *collective != Collective::AllGather;
    }
  };
  /// A token and the index of its instance (ring slot) for a micro-batch in
  /// flight, or 0 if the token has only one instance.
  using Token = std::pair<Value, int64_t>;
  Token tokenOf(Value token) const {
    bool hasRing = token.getDefiningOp<rt::TokenOp>().getRing();
    return {token, hasRing ? current.slot : 0};
  }
  /// Returns the index of this rank on the axis of data parallelism.
  static int64_t ownIndex() {
    RankGroup *ranks = currentRankGroup();
    return ranks ? ranks->rank(
                       {support::dataAxis.data(), support::dataAxis.size()})
                 : 0;
  }
  /// Returns true if this rank executes a command.
  static bool isHere(Operation *op) {
    int64_t owner = rt::ownerOf(cast<rt::CommandOpInterface>(op));
    return owner == kNoOwner || owner == ownIndex();
  }
  LogicalResult addTransfers(const ScheduledCommand &command,
                             std::vector<Transfer> started);
  LogicalResult end(rt::WaitOp wait, const Transfer &transfer);
  LogicalResult collect(Operation *op,
                        llvm::MutableArrayRef<Transfer> transfers);
  /// For each token, the transfers in progress that were started with it.
  DenseMap<Token, std::vector<Transfer>> transfers;
  DenseSet<Token> landed; ///< Tokens of completed transfers.
};

} // namespace

/// The shadow value of bytes that a transfer in progress may write at any time.
static constexpr InterpretedArena::Writer kUnderWay = {-1, -1};

Machine::Machine(const Interpreter &interpreter,
                 const ScheduledProgram &program, InterpretedArena &arena)
    : interpreter(interpreter), program(program), arena(arena) {
  for (rt::SlotOp slot : program.slots)
    isPrivate.push_back(program.microbatches && !slot.getState() &&
                        static_cast<int64_t>(slot.getFirst()) >=
                            program.microbatches->forward &&
                        static_cast<int64_t>(slot.getLast()) <
                            program.microbatches->end);
  // The caller accesses inputs and outputs before and after all micro-batches,
  // even if no command does.
  for (const auto *boundaries : {&program.inputs, &program.outputs})
    for (const ScheduledProgram::Boundary &boundary : *boundaries)
      isPrivate[boundary.tensor.slot] = false;
}

/// Verifies that slots with overlapping lifetimes share no bytes.
LogicalResult Machine::checkDisjoint() {
  SmallVector<unsigned> order;
  for (unsigned i = 0; i < program.slots.size(); ++i)
    if (rt::SlotOp slot = program.slots[i];
        slot.getBytes() > 0 && rt::exists(slot, ownIndex()))
      order.push_back(i);
  auto begin = [&](unsigned i) { return program.addressOf(program.slots[i]); };
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return std::pair(begin(a), a) < std::pair(begin(b), b);
  });
  for (size_t i = 0; i < order.size(); ++i) {
    rt::SlotOp a = program.slots[order[i]];
    auto [firstA, lastA] = rt::occupancyOf(a, program.microbatches);
    int64_t end = program.addressOf(a) + a.getTotalBytes();
    for (size_t j = i + 1; j < order.size() && begin(order[j]) < end; ++j) {
      rt::SlotOp b = program.slots[order[j]];
      auto [firstB, lastB] = rt::occupancyOf(b, program.microbatches);
      if (lastA < firstB || lastB < firstA)
        continue;
      InFlightDiagnostic diagnostic =
          b.emitOpError("'")
          << b.getName() << "' (offset " << b.getOffset() << ", size "
          << b.getTotalBytes() << ") overlaps slot '" << a.getName()
          << "' (offset " << a.getOffset() << ", size " << a.getTotalBytes()
          << "), which is live at the same time";
      diagnostic.attachNote(a.getLoc()) << "the other slot is here";
      return diagnostic;
    }
  }
  return success();
}

/// Returns true if the value of a slot for the micro-batch of `owner` is live
/// at the running command. The running command may belong to another
/// micro-batch if it waits for a copy.
bool Machine::isAlive(unsigned slotIndex, const SegmentRun &owner) {
  rt::SlotOp slot = program.slots[slotIndex];
  int64_t first = slot.getFirst(), last = slot.getLast();
  if (isPrivate[slotIndex] && execution.run &&
      current.microbatch != owner.microbatch)
    return inFlight.contains(owner.microbatch) &&
           last >= program.microbatches->backward;
  return first <= index && index <= last;
}

LogicalResult Machine::checkAlive(Operation *op, unsigned slotIndex,
                                  const SegmentRun &owner) {
  if (isAlive(slotIndex, owner))
    return success();
  rt::SlotOp slot = program.slots[slotIndex];
  InFlightDiagnostic diagnostic = emitError(op) << " and accesses slot '"
                                                << slot.getName() << "'";
  if (owner.microbatch != current.microbatch)
    diagnostic << " of micro-batch " << owner.microbatch;
  return diagnostic << ", which is only live from command " << slot.getFirst()
                    << " to " << slot.getLast();
}

void Machine::forRows(const SlotTensor &tensor, const SegmentRun &owner,
                      llvm::function_ref<bool(int64_t, int64_t)> body) {
  int64_t begin = program.addressOf(tensor, owner),
          width = tensor.elementBytes();
  if (tensor.isDense()) {
    if (tensor.type.getNumElements())
      body(begin, begin + tensor.extent());
    return;
  }
  int64_t row = getColumnCount(tensor.type) * width;
  for (int64_t r = 0, e = getRowCount(tensor.type); r < e; ++r) {
    int64_t at = begin + r * tensor.rowStride * width;
    if (!body(at, at + row))
      return;
  }
}

/// Checks that a tensor contains what the micro-batch of `owner` has written.
LogicalResult Machine::checkRead(Operation *op, const SlotTensor &tensor,
                                 const SegmentRun &owner) {
  if (failed(checkAlive(op, tensor.slot, owner)))
    return failure();
  Writer expected = writerOf(tensor.slot, owner);
  LogicalResult result = success();
  forRows(tensor, owner, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin / arena.unit; unit < endUnit(end); ++unit) {
      Writer writer = arena.writers[unit];
      if (writer == expected)
        continue;
      rt::SlotOp slot = program.slots[tensor.slot];
      InFlightDiagnostic diagnostic =
          emitError(op) << " and reads slot '" << slot.getName() << "' at byte "
                        << unit * arena.unit - program.addressOf(slot, owner)
                        << ", ";
      if (writer.slot == 0) {
        diagnostic << "which was not written";
      } else if (writer == kUnderWay) {
        diagnostic << "where a copy is in progress";
      } else if (writer.slot == expected.slot) {
        diagnostic << "where micro-batch " << writer.microbatch
                   << " was the last to write";
      } else {
        rt::SlotOp other = program.slots[writer.slot - 1];
        diagnostic << "where slot '" << other.getName()
                   << "' was the last to write";
        diagnostic.attachNote(other.getLoc()) << "the other slot is here";
      }
      result = diagnostic;
      return false;
    }
    return true;
  });
  return result;
}

void Machine::mark(int64_t begin, int64_t end, Writer writer) {
  std::fill(arena.writers.begin() + begin / arena.unit,
            arena.writers.begin() + endUnit(end), writer);
}

void Machine::markWritten(const SlotTensor &tensor, const SegmentRun &owner) {
  forRows(tensor, owner, [&](int64_t begin, int64_t end) {
    mark(begin, end, writerOf(tensor.slot, owner));
    return true;
  });
}

/// Starts the transfers of one command.
LogicalResult Machine::addTransfers(const ScheduledCommand &command,
                                    std::vector<Transfer> started) {
  Token token = tokenOf(cast<rt::BeginOp>(command.op).getToken());
  if (transfers.contains(token))
    return command.op->emitOpError("begins a transfer whose token belongs to "
                                   "another transfer that is still in "
                                   "progress");
  landed.erase(token);
  for (Transfer &transfer : started) {
    const char *source = bytesOf(transfer.from);
    transfer.bytes.assign(source, source + transfer.from.extent());
    for (const SlotTensor *tensor : {&transfer.from, &transfer.to}) {
      if (tensor == &transfer.from ? !transfer.overwritesSource()
                                   : !transfer.writesTarget())
        continue;
      int64_t begin = program.addressOf(*tensor, current);
      mark(begin, begin + tensor->extent(), kUnderWay);
    }
  }
  transfers[token] = std::move(started);
  return success();
}

LogicalResult Machine::beginCopy(const ScheduledCommand &command) {
  const SlotTensor &from = command.operands.front(),
                   &to = command.results.front();
  if (failed(checkRead(command.op, from, current)) ||
      failed(checkAlive(command.op, to.slot, current)))
    return failure();
  return addTransfers(command, {{from, to, current, {}}});
}

/// Begins a collective of all ranks.
LogicalResult Machine::beginCollective(const ScheduledCommand &command) {
  std::vector<Transfer> started;
  auto begin = cast<rt::BeginOp>(command.op);
  std::optional<ArrayRef<int64_t>> owners = begin.getOwners();
  for (auto [i, from, to] :
       llvm::enumerate(command.operands, command.results)) {
    Transfer transfer{
        from, to, current, {}, *command.collective, *begin.getAxis()};
    if (owners) {
      transfer.shardOwner = (*owners)[i];
      transfer.hasShard = transfer.shardOwner == ownIndex();
    }
    if ((transfer.readsSource() &&
         failed(checkRead(command.op, from, current))) ||
        failed(checkAlive(command.op, to.slot, current)))
      return failure();
    started.push_back(std::move(transfer));
  }
  return addTransfers(command, std::move(started));
}

/// Executes the collective that started all of `transfers`. Replaces `bytes` of
/// each transfer by what the collective computes for this transfer.
LogicalResult Machine::collect(Operation *op,
                               llvm::MutableArrayRef<Transfer> transfers) {
  std::vector<HostTensor> inputs, results;
  SmallVector<const HostTensor *> operands;
  SmallVector<int64_t> owners;
  for (const Transfer &transfer : transfers) {
    if (transfer.shardOwner != kNoOwner)
      owners.push_back(transfer.shardOwner);
    inputs.push_back(loadTensor(transfer.from, transfer.bytes.data()));
    results.emplace_back(transfer.to.type);
  }
  for (const HostTensor &input : inputs)
    operands.push_back(&input);
  if (failed(evaluateCollective(
          op, *transfers.front().collective, transfers.front().axis, operands,
          results,
          owners.empty() ? std::nullopt
                         : std::optional<ArrayRef<int64_t>>(owners))))
    return failure();
  for (auto [transfer, result] : llvm::zip_equal(transfers, results)) {
    transfer.bytes.resize(transfer.to.extent());
    storeTensor(transfer.to, result, transfer.bytes.data());
  }
  return success();
}

/// Checks that the source and destination have not changed since the transfer
/// began, and completes the transfer.
LogicalResult Machine::end(rt::WaitOp wait, const Transfer &transfer) {
  const SlotTensor &from = transfer.from, &to = transfer.to;
  const SegmentRun &owner = transfer.owner;
  if (failed(checkAlive(wait, to.slot, owner)) ||
      failed(checkAlive(wait, from.slot, owner)))
    return failure();
  if (!transfer.overwritesSource() && transfer.readsSource() &&
      failed(checkRead(wait, from, owner)))
    return failure();
  auto checkUnderWay = [&](const SlotTensor &tensor) -> LogicalResult {
    auto units = llvm::ArrayRef(arena.writers)
                     .slice(program.addressOf(tensor, owner) / arena.unit,
                            endUnit(tensor.extent()));
    if (llvm::all_of(units, [](Writer writer) { return writer == kUnderWay; }))
      return success();
    return wait.emitOpError("waits for a transfer whose destination '")
           << rt::SlotOp(program.slots[tensor.slot]).getName()
           << "' was written while the transfer was in progress";
  };
  if ((transfer.writesTarget() && failed(checkUnderWay(to))) ||
      (transfer.overwritesSource() && failed(checkUnderWay(from))))
    return failure();
  // The contents of the tensors that a reduce-scatter sums are undefined
  // afterwards.
  if (transfer.overwritesSource())
    mark(program.addressOf(from, owner),
         program.addressOf(from, owner) + from.extent(), Writer());
  if (!transfer.writesTarget())
    return success();
  std::memcpy(bytesOf(to, owner), transfer.bytes.data(), transfer.bytes.size());
  markWritten(to, owner);
  return success();
}

LogicalResult Machine::end(rt::WaitOp wait) {
  // An earlier wait of another queue for this token may have completed the
  // transfer.
  Token token = tokenOf(wait.getToken());
  if (landed.contains(token))
    return success();
  auto found = transfers.find(token);
  if (found == transfers.end())
    return wait.emitOpError(
        "waits for a token that no transfer in progress signals");
  for (const Transfer &transfer : found->second)
    if (!transfer.overwritesSource() && transfer.readsSource() &&
        std::memcmp(bytesOf(transfer.from, transfer.owner),
                    transfer.bytes.data(), transfer.bytes.size()) != 0)
      return wait.emitOpError("waits for a transfer whose source '")
             << rt::SlotOp(program.slots[transfer.from.slot]).getName()
             << "' changed while the transfer was in progress";
  if (found->second.front().collective && failed(collect(wait, found->second)))
    return failure();
  for (const Transfer &transfer : found->second)
    if (failed(end(wait, transfer)))
      return failure();
  landed.insert(token);
  transfers.erase(found);
  return success();
}

LogicalResult Machine::execute(const ScheduledCommand &command) {
  Operation *op = command.op;
  if (command.kind == ScheduledCommand::Kind::CopyStart)
    return beginCopy(command);
  if (command.kind == ScheduledCommand::Kind::CollectiveStart)
    return beginCollective(command);
  if (auto wait = dyn_cast<rt::WaitOp>(op))
    return end(wait);
  bool readsSum = readsAccumulated(command, current);
  for (auto [i, operand] : llvm::enumerate(command.operands))
    if (static_cast<int>(i) != command.accumulated || readsSum)
      if (failed(checkRead(op, operand, current)))
        return failure();
  for (const SlotTensor &result : command.results)
    if (failed(checkAlive(op, result.slot, current)))
      return failure();
  if (command.scratch >= 0) {
    if (failed(checkAlive(op, command.scratch, current)))
      return failure();
    markSlot(command.scratch);
  }
  if (command.kind == ScheduledCommand::Kind::Fill) {
    const SlotTensor &to = command.results.front();
    std::memset(bytesOf(to), 0, to.extent());
  } else if (command.kind == ScheduledCommand::Kind::Copy) {
    const SlotTensor &to = command.results.front();
    std::memmove(bytesOf(to), bytesOf(command.operands.front()), to.extent());
  } else if (command.kind == ScheduledCommand::Kind::CopyShard) {
    const SlotTensor &from = command.operands.front(),
                     &to = command.results.front();
    auto shard = evaluateShard(op, *cast<rt::CopyOp>(op).getAxis(),
                               loadTensor(from, bytesOf(from)),
                               to.type.getNumElements());
    if (failed(shard))
      return failure();
    HostTensor tensor(to.type);
    tensor.reals = std::move(*shard);
    storeTensor(to, tensor, bytesOf(to));
  } else {
    SmallVector<TensorHandle> operands;
    for (auto [i, operand] : llvm::enumerate(command.operands)) {
      bool zeros = static_cast<int>(i) == command.accumulated && !readsSum;
      operands.push_back(std::make_shared<const HostTensor>(
          zeros ? HostTensor(operand.type)
                : loadTensor(operand, bytesOf(operand))));
    }
    auto results = evaluateCommand(interpreter, command, operands);
    if (failed(results))
      return failure();
    for (auto [place, value] : llvm::zip_equal(command.results, *results))
      storeTensor(place, *value, bytesOf(place));
  }
  for (const SlotTensor &result : command.results)
    markWritten(result, current);
  return success();
}

LogicalResult Machine::execute(const rt::SegmentExecution &next) {
  execution = next;
  current = runOf(execution);
  if (execution.run)
    inFlight.insert(current.microbatch);
  for (index = execution.begin; index < execution.end; ++index)
    if (const ScheduledCommand &command = program.commands[index];
        rt::isExecuted(command.op, execution) && isHere(command.op) &&
        failed(execute(command)))
      return failure();
  if (execution.run && current.segment == Segment::Backward)
    inFlight.erase(current.microbatch);
  return success();
}

LogicalResult Machine::run() {
  if (failed(checkDisjoint()))
    return failure();
  llvm::fill(arena.writers, Writer());
  for (unsigned i = 0; i < program.slots.size(); ++i)
    if (rt::SlotOp slot = program.slots[i];
        slot.getState() && rt::exists(slot, ownIndex()))
      markSlot(i);
  for (const ScheduledProgram::Boundary &input : program.inputs)
    markWritten(input.tensor, current);

  for (const rt::SegmentExecution &next : program.executions)
    if (failed(execute(next)))
      return failure();
  if (!transfers.empty())
    return rt::ProgramOp(program.op)
        .emitOpError(
            "has a transfer that is still in progress when the program "
            "ends, because no kilnrt.wait waits for it");
  auto commands = static_cast<int64_t>(program.commands.size());
  index = std::max<int64_t>(commands - 1, 0);
  for (const ScheduledProgram::Boundary &output : program.outputs)
    if (failed(checkRead(program.op, output.tensor, current)))
      return failure();
  for (unsigned i = 0; i < program.slots.size(); ++i) {
    rt::SlotOp slot = program.slots[i];
    if (!slot.getState() || !rt::exists(slot, ownIndex()))
      continue;
    int64_t units = slot.getBytes() / arena.unit;
    auto type = RankedTensorType::get(
        {units}, IntegerType::get(slot.getContext(), 8 * arena.unit));
    if (failed(checkRead(program.op, {i, 0, 0, units, type}, current)))
      return failure();
  }
  return success();
}

LogicalResult runScheduled(const Interpreter &interpreter,
                           const ScheduledProgram &program,
                           InterpretedArena &arena) {
  return Machine(interpreter, program, arena).run();
}

HostTensor loadTensor(const SlotTensor &tensor, const char *bytes) {
  ElementType stored = storedType(tensor.type);
  if (tensor.isDense())
    return tensorFromBytes(tensor.type, stored, bytes);
  int64_t width = tensor.elementBytes();
  int64_t row = getColumnCount(tensor.type) * width;
  std::vector<char> dense(tensor.type.getNumElements() * width);
  for (int64_t r = 0, e = getRowCount(tensor.type); r < e; ++r)
    std::memcpy(dense.data() + r * row, bytes + r * tensor.rowStride * width,
                row);
  return tensorFromBytes(tensor.type, stored, dense.data());
}

void storeTensor(const SlotTensor &tensor, const HostTensor &value,
                 char *bytes) {
  ElementType stored = storedType(tensor.type);
  if (tensor.isDense())
    return tensorToBytes(value, stored, bytes);
  int64_t width = tensor.elementBytes();
  int64_t row = getColumnCount(tensor.type) * width;
  std::vector<char> dense(tensor.type.getNumElements() * width);
  tensorToBytes(value, stored, dense.data());
  for (int64_t r = 0, e = getRowCount(tensor.type); r < e; ++r)
    std::memcpy(bytes + r * tensor.rowStride * width, dense.data() + r * row,
                row);
}

} // namespace kiln
