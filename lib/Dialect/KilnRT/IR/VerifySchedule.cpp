//===- VerifySchedule.cpp - Verification of the schedule --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifies that slots which share bytes have disjoint lifetimes and that
// commands access only live slots. QueueOrder.cpp verifies that commands of
// different queues which access the same bytes are ordered.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::rt;

/// Returns the lifetime of a slot. A state is live throughout the program.
static std::pair<uint64_t, uint64_t> lifeOf(SlotOp slot) {
  if (slot.getState())
    return {0, UINT64_MAX};
  return {slot.getFirst(), slot.getLast()};
}

static LogicalResult checkDisjoint(rt::ProgramOp program) {
  SmallVector<SlotOp> slots;
  for (SlotOp slot : program.getBody().front().getOps<SlotOp>())
    if (slot.getBytes() > 0)
      slots.push_back(slot);
  llvm::sort(slots, [](SlotOp a, SlotOp b) {
    return std::tuple(a.getMemory(), a.getOffset(), a.getFirst()) <
           std::tuple(b.getMemory(), b.getOffset(), b.getFirst());
  });
  for (size_t i = 0; i < slots.size(); ++i) {
    SlotOp a = slots[i];
    for (size_t j = i + 1;
         j < slots.size() && slots[j].getMemory() == a.getMemory() &&
         slots[j].getOffset() < a.getOffset() + a.getBytes();
         ++j) {
      SlotOp b = slots[j];
      if (lifeOf(a).second < lifeOf(b).first ||
          lifeOf(b).second < lifeOf(a).first)
        continue;
      InFlightDiagnostic diagnostic = b.emitOpError("'")
                                      << b.getName() << "' shares bytes with '"
                                      << a.getName()
                                      << "', which is live at the same time";
      diagnostic.attachNote(a.getLoc()) << "the other slot is here";
      return diagnostic;
    }
  }
  return success();
}

/// Verifies that a slot which is accessed both in a loop and outside of the
/// loop is live during the whole loop, because every iteration accesses the
/// slot.
static LogicalResult checkLoops(rt::ProgramOp program,
                                ArrayRef<Operation *> commands) {
  std::optional<size_t> begin;
  for (auto [end, command] : llvm::enumerate(commands)) {
    if (!isa<LoopOp>(command))
      continue;
    if (!begin) {
      begin = end;
      continue;
    }
    for (SlotOp slot : program.getBody().front().getOps<SlotOp>()) {
      size_t first = slot.getFirst(), last = slot.getLast();
      bool inside = first < end && last > *begin;
      bool outside = first < *begin || last > end;
      if (inside && outside && (first > *begin || last < end))
        return slot.emitOpError("'")
               << slot.getName() << "' is live from command " << first << " to "
               << last
               << ", expected a slot that is live in the whole loop, from "
                  "command "
               << *begin << " to " << end;
    }
    begin.reset();
  }
  return success();
}

static LogicalResult checkAlive(Operation *op, SlotOp slot, size_t index) {
  auto [first, last] = lifeOf(slot);
  if (first <= index && index <= last)
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError("accesses slot '")
                                  << slot.getName() << "' at command " << index
                                  << ", but the slot is only live from command "
                                  << slot.getFirst() << " to "
                                  << slot.getLast();
  diagnostic.attachNote(slot.getLoc()) << "the slot is here";
  return diagnostic;
}

/// Verifies that commands access live slots, and that inputs are live at the
/// first command and outputs at the last.
static LogicalResult checkLives(rt::ProgramOp program,
                                ArrayRef<Operation *> commands) {
  for (auto [index, op] : llvm::enumerate(commands))
    if (auto command = dyn_cast<CommandOpInterface>(op))
      for (const MemoryAccess &access : command.getAccesses())
        if (failed(checkAlive(op, slotOf(access.slot), index)))
          return failure();
  Block &block = program.getBody().front();
  for (InputOp input : block.getOps<InputOp>())
    if (!input.getInputFact())
      return input.emitOpError("'")
             << input.getName()
             << "' has no role, so the caller cannot supply its value: declare "
                "the input with #kiln.input<data>";
  if (commands.empty())
    return success();
  for (InputOp input : block.getOps<InputOp>())
    if (failed(checkAlive(input, input.getView().getSlotOp(), 0)))
      return failure();
  for (OutputOp output : block.getOps<OutputOp>())
    if (failed(checkAlive(output, output.getView().getSlotOp(),
                          commands.size() - 1)))
      return failure();
  return checkLoops(program, commands);
}

LogicalResult rt::verifySchedule(rt::ProgramOp program) {
  SmallVector<Operation *> commands = commandsOf(program);
  return failure(failed(checkDisjoint(program)) ||
                 failed(checkLives(program, commands)) ||
                 failed(verifyQueueOrder(program, commands)));
}
