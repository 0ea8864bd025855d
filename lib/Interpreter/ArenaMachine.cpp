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

#include "kiln/Interpreter/ScheduledEngine.h"
#include "kiln/Interpreter/TensorBytes.h"

#include "llvm/ADT/STLExtras.h"

#include <cstring>

using namespace mlir;

namespace kiln {

namespace {

class Machine {
public:
  Machine(const Interpreter &interpreter, const ScheduledProgram &program,
          InterpretedArena &arena)
      : interpreter(interpreter), program(program), arena(arena) {}
  LogicalResult run();

private:
  LogicalResult checkDisjoint();
  LogicalResult execute(const ScheduledCommand &command);
  LogicalResult checkAlive(Operation *op, unsigned slot);
  LogicalResult checkRead(Operation *op, const SlotTensor &tensor);
  void markWritten(const SlotTensor &tensor);
  void forgetIteration(size_t begin, size_t end);
  void mark(int64_t begin, int64_t end, int32_t writer);
  void markSlot(rt::SlotOp slot, int32_t writer) {
    int64_t begin = program.addressOf(slot);
    mark(begin, begin + static_cast<int64_t>(slot.getBytes()), writer);
  }
  LogicalResult beginCopy(const ScheduledCommand &command);
  LogicalResult endCopy(rt::WaitOp wait);
  /// Calls `body(begin, end)` for the bytes of every row, as arena offsets.
  void forRows(const SlotTensor &tensor,
               llvm::function_ref<bool(int64_t, int64_t)> body);
  int64_t startOf(const SlotTensor &tensor) const {
    rt::SlotOp slot = program.slots[tensor.slot];
    return program.addressOf(slot) + tensor.offset +
           tensor.loopStride * iteration;
  }
  char *bytesOf(const SlotTensor &tensor) {
    return arena.bytes.data() + startOf(tensor);
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
  int64_t index = 0; ///< Index of the running command.
  int64_t iteration = 0;
  /// A copy in progress. `bytes` contains the bytes of the source at the time
  /// when the copy began.
  struct Transfer {
    SlotTensor from, to;
    std::vector<char> bytes;
  };
  DenseMap<Value, Transfer> transfers; ///< Keyed by token.
  DenseSet<Value> landed;              ///< Tokens of completed copies.
};

} // namespace

/// The shadow value of bytes that a copy in progress may write at any time.
static constexpr int32_t kUnderWay = -1;

/// Verifies that slots with overlapping lifetimes share no bytes.
LogicalResult Machine::checkDisjoint() {
  SmallVector<unsigned> order;
  for (unsigned i = 0; i < program.slots.size(); ++i)
    if (rt::SlotOp slot = program.slots[i]; slot.getBytes() > 0)
      order.push_back(i);
  auto begin = [&](unsigned i) -> int64_t {
    rt::SlotOp slot = program.slots[i];
    return program.addressOf(slot);
  };
  llvm::sort(order, [&](unsigned a, unsigned b) {
    return std::pair(begin(a), a) < std::pair(begin(b), b);
  });
  for (size_t i = 0; i < order.size(); ++i) {
    rt::SlotOp a = program.slots[order[i]];
    int64_t end = program.addressOf(a) + static_cast<int64_t>(a.getBytes());
    for (size_t j = i + 1; j < order.size() && begin(order[j]) < end; ++j) {
      rt::SlotOp b = program.slots[order[j]];
      if (a.getLast() < b.getFirst() || b.getLast() < a.getFirst())
        continue;
      InFlightDiagnostic diagnostic =
          b.emitOpError("'")
          << b.getName() << "' (offset " << b.getOffset() << ", size "
          << b.getBytes() << ") overlaps slot '" << a.getName() << "' (offset "
          << a.getOffset() << ", size " << a.getBytes()
          << "), which is live at the same time";
      diagnostic.attachNote(a.getLoc()) << "the other slot is here";
      return diagnostic;
    }
  }
  return success();
}

LogicalResult Machine::checkAlive(Operation *op, unsigned slotIndex) {
  rt::SlotOp slot = program.slots[slotIndex];
  int64_t first = slot.getFirst(), last = slot.getLast();
  if (first <= index && index <= last)
    return success();
  return op->emitOpError("is command ")
         << index << " and accesses slot '" << slot.getName()
         << "', which is only live from command " << first << " to " << last;
}

void Machine::forRows(const SlotTensor &tensor,
                      llvm::function_ref<bool(int64_t, int64_t)> body) {
  int64_t begin = startOf(tensor), width = tensor.elementBytes();
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

LogicalResult Machine::checkRead(Operation *op, const SlotTensor &tensor) {
  if (failed(checkAlive(op, tensor.slot)))
    return failure();
  int32_t expected = static_cast<int32_t>(tensor.slot) + 1;
  LogicalResult result = success();
  forRows(tensor, [&](int64_t begin, int64_t end) {
    for (int64_t unit = begin / arena.unit; unit < endUnit(end); ++unit) {
      int32_t writer = arena.writers[unit];
      if (writer == expected)
        continue;
      rt::SlotOp slot = program.slots[tensor.slot];
      InFlightDiagnostic diagnostic =
          op->emitOpError("is command ")
          << index << " and reads slot '" << slot.getName() << "' at byte "
          << unit * arena.unit - program.addressOf(slot) << ", ";
      if (writer == 0) {
        diagnostic << "which was not written";
      } else if (writer == kUnderWay) {
        diagnostic << "where a copy is in progress";
      } else {
        rt::SlotOp other = program.slots[writer - 1];
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

void Machine::mark(int64_t begin, int64_t end, int32_t writer) {
  std::fill(arena.writers.begin() + begin / arena.unit,
            arena.writers.begin() + endUnit(end), writer);
}

void Machine::markWritten(const SlotTensor &tensor) {
  forRows(tensor, [&](int64_t begin, int64_t end) {
    mark(begin, end, static_cast<int32_t>(tensor.slot) + 1);
    return true;
  });
}

/// Marks slots whose lifetime is within one iteration as unwritten, because the
/// next iteration must write them again.
void Machine::forgetIteration(size_t begin, size_t end) {
  for (size_t i = 0; i < program.slots.size(); ++i) {
    rt::SlotOp slot = program.slots[i];
    if (slot.getFirst() <= begin || slot.getLast() >= end)
      continue;
    int64_t begin = program.addressOf(slot),
            last = endUnit(begin + static_cast<int64_t>(slot.getBytes()));
    for (int64_t unit = begin / arena.unit; unit < last; ++unit)
      if (arena.writers[unit] == static_cast<int32_t>(i) + 1)
        arena.writers[unit] = 0;
  }
}

LogicalResult Machine::beginCopy(const ScheduledCommand &command) {
  const SlotTensor &from = command.operands.front(),
                   &to = command.results.front();
  if (failed(checkRead(command.op, from)) ||
      failed(checkAlive(command.op, to.slot)))
    return failure();
  const char *source = bytesOf(from);
  Value token = cast<rt::BeginOp>(command.op).getToken();
  if (transfers.contains(token))
    return command.op->emitOpError("begins a copy with the token of an earlier "
                                   "copy that is still in progress");
  landed.erase(token);
  // Store the offsets of the source and destination in the current iteration,
  // because the command that waits for the copy may run in the next iteration.
  SlotTensor places[] = {from, to};
  for (SlotTensor &place : places) {
    place.offset += place.loopStride * iteration;
    place.loopStride = 0;
  }
  transfers[token] = {places[0], places[1], {source, source + from.extent()}};
  mark(startOf(to), startOf(to) + to.extent(), kUnderWay);
  return success();
}

/// Checks that the source and destination have not changed since the copy
/// began, and completes the copy.
LogicalResult Machine::endCopy(rt::WaitOp wait) {
  // An earlier wait of another queue for this token may have completed the
  // copy.
  if (landed.contains(wait.getToken()))
    return success();
  auto found = transfers.find(wait.getToken());
  if (found == transfers.end())
    return wait.emitOpError(
        "waits for a token that no copy in progress signals");
  const auto &[from, to, bytes] = found->second;
  if (failed(checkRead(wait, from)))
    return failure();
  if (std::memcmp(bytesOf(from), bytes.data(), bytes.size()) != 0)
    return wait.emitOpError("waits for a copy whose source '")
           << rt::SlotOp(program.slots[from.slot]).getName()
           << "' changed while the copy was in progress";
  auto units = llvm::ArrayRef(arena.writers)
                   .slice(startOf(to) / arena.unit, endUnit(to.extent()));
  if (llvm::any_of(units, [](int32_t writer) { return writer != kUnderWay; }))
    return wait.emitOpError("waits for a copy whose destination '")
           << rt::SlotOp(program.slots[to.slot]).getName()
           << "' was written while the copy was in progress";
  std::memcpy(bytesOf(to), bytes.data(), bytes.size());
  markWritten(to);
  landed.insert(found->first);
  transfers.erase(found);
  return success();
}

LogicalResult Machine::execute(const ScheduledCommand &command) {
  Operation *op = command.op;
  if (command.kind == ScheduledCommand::Kind::CopyStart)
    return beginCopy(command);
  if (auto wait = dyn_cast<rt::WaitOp>(op))
    return endCopy(wait);
  bool readsSum = readsAccumulated(command, iteration);
  for (auto [i, operand] : llvm::enumerate(command.operands))
    if (static_cast<int>(i) != command.accumulated || readsSum)
      if (failed(checkRead(op, operand)))
        return failure();
  for (const SlotTensor &result : command.results)
    if (failed(checkAlive(op, result.slot)))
      return failure();
  if (command.scratch >= 0) {
    rt::SlotOp slot = program.slots[command.scratch];
    if (failed(checkAlive(op, command.scratch)))
      return failure();
    markSlot(slot, command.scratch + 1);
  }
  if (command.kind == ScheduledCommand::Kind::Fill) {
    const SlotTensor &to = command.results.front();
    std::memset(bytesOf(to), 0, to.extent());
  } else if (command.kind == ScheduledCommand::Kind::Copy) {
    const SlotTensor &to = command.results.front();
    std::memmove(bytesOf(to), bytesOf(command.operands.front()), to.extent());
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
    markWritten(result);
  return success();
}

LogicalResult Machine::run() {
  if (failed(checkDisjoint()))
    return failure();
  llvm::fill(arena.writers, 0);
  for (size_t i = 0; i < program.slots.size(); ++i) {
    rt::SlotOp slot = program.slots[i];
    if (slot.getState())
      markSlot(slot, i + 1);
  }
  for (const ScheduledProgram::Boundary &input : program.inputs)
    markWritten(input.tensor);

  int64_t loopBegin = 0, count = 0, commands = program.commands.size();
  for (index = 0; index < commands; ++index) {
    const ScheduledCommand &command = program.commands[index];
    if (command.kind == ScheduledCommand::Kind::LoopBegin) {
      loopBegin = index;
      count = command.count;
    } else if (command.kind == ScheduledCommand::Kind::LoopEnd) {
      if (++iteration < count) {
        forgetIteration(loopBegin, index);
        index = loopBegin;
      } else {
        iteration = 0;
      }
    } else if (failed(execute(command))) {
      return failure();
    }
  }
  if (!transfers.empty())
    return rt::ProgramOp(program.op)
        .emitOpError("has a copy that is still in progress at the end, because "
                     "no kilnrt.wait waits for it");
  index = std::max<int64_t>(commands - 1, 0);
  for (const ScheduledProgram::Boundary &output : program.outputs)
    if (failed(checkRead(program.op, output.tensor)))
      return failure();
  for (size_t i = 0; i < program.slots.size(); ++i) {
    rt::SlotOp slot = program.slots[i];
    if (!slot.getState())
      continue;
    int64_t units = slot.getBytes() / arena.unit;
    auto type = RankedTensorType::get(
        {units}, IntegerType::get(slot.getContext(), 8 * arena.unit));
    if (failed(checkRead(program.op,
                         {static_cast<unsigned>(i), 0, 0, units, type})))
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
