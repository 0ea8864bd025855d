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

#include <map>

using namespace mlir;
using namespace kiln;
using namespace kiln::rt;

/// Returns the lifetime of a slot. A state is live throughout the program.
static std::pair<int64_t, int64_t> lifeOf(SlotOp slot) {
  if (slot.getState())
    return {0, INT64_MAX};
  return {slot.getFirst(), slot.getLast()};
}

namespace {
/// A slot, its byte range [begin, end) and its lifetime [first, last].
struct Extent {
  SlotOp slot;
  MemorySpace memory;
  int64_t begin, end;
  int64_t first, last;

  auto key() const { return std::tuple(memory, begin, first); }
};
} // namespace

static LogicalResult rejectOverlap(const Extent &a, const Extent &b) {
  SlotOp first = std::min(a.key(), b.key()) == a.key() ? a.slot : b.slot;
  SlotOp second = first == a.slot ? b.slot : a.slot;
  InFlightDiagnostic diagnostic = second.emitOpError("'")
                                  << second.getName() << "' shares bytes with '"
                                  << first.getName()
                                  << "', which is live at the same time";
  diagnostic.attachNote(first.getLoc()) << "the other slot is here";
  return diagnostic;
}

/// Verifies for the rank `owner` that slots share no bytes if they are live at
/// the same time. A rank has the slots that all ranks have, and those that it
/// alone has. Visits the slots in the order in which their lifetimes begin, and
/// keeps the live slots sorted by offset.
static LogicalResult checkDisjoint(rt::ProgramOp program, int64_t owner) {
  std::optional<MicrobatchCommands> microbatches = microbatchesOf(program);
  std::vector<Extent> extents;
  for (SlotOp slot : program.getBody().front().getOps<SlotOp>()) {
    if (slot.getBytes() == 0 || !exists(slot, owner))
      continue;
    auto [first, last] =
        slot.getState() ? lifeOf(slot) : occupancyOf(slot, microbatches);
    auto begin = static_cast<int64_t>(slot.getOffset());
    extents.push_back({slot, slot.getMemory(), begin,
                       begin + slot.getTotalBytes(), first, last});
  }
  llvm::sort(extents, [](const Extent &a, const Extent &b) {
    return std::tuple(a.first, a.key()) < std::tuple(b.first, b.key());
  });
  using Place = std::pair<MemorySpace, int64_t>;
  std::map<Place, const Extent *> live;
  std::multimap<int64_t, Place> byEnd;
  for (const Extent &extent : extents) {
    while (!byEnd.empty() && byEnd.begin()->first < extent.first) {
      live.erase(byEnd.begin()->second);
      byEnd.erase(byEnd.begin());
    }
    // The live slots are disjoint. If one of them overlaps this slot, then so
    // does the next live slot above or the next one below.
    auto above = live.lower_bound({extent.memory, extent.begin});
    if (above != live.end() && above->second->memory == extent.memory &&
        above->second->begin < extent.end)
      return rejectOverlap(*above->second, extent);
    if (above != live.begin()) {
      const Extent &below = *std::prev(above)->second;
      if (below.memory == extent.memory && below.end > extent.begin)
        return rejectOverlap(below, extent);
    }
    Place place = {extent.memory, extent.begin};
    live[place] = &extent;
    byEnd.emplace(extent.last, place);
  }
  return success();
}

/// Returns true if the slot holds an input or an output, which the caller
/// accesses outside of the commands.
static bool isBoundary(SlotOp slot) {
  return llvm::any_of(slot->getUsers(), [](Operation *view) {
    return llvm::any_of(view->getUsers(), [](Operation *user) {
      return isa<InputOp, OutputOp>(user);
    });
  });
}

/// Verifies that the lifetimes of slots agree with the order of micro-batches:
/// - A slot with a ring, which has one instance per micro-batch in flight, is
///   live only in micro-batches.
/// - A slot that is live both in and outside of micro-batches is live in all of
///   the forward and backward segments, unless its lifetime begins in the last
///   execution of the backward segment.
/// - A slot that is live in both segments, but not outside of micro-batches,
///   has a ring if several micro-batches may be in flight.
static LogicalResult checkMicrobatches(rt::ProgramOp program) {
  std::optional<MicrobatchCommands> microbatches = microbatchesOf(program);
  int64_t begin = microbatches ? microbatches->forward : 0,
          backward = microbatches ? microbatches->backward : 0,
          end = microbatches ? microbatches->end : 0;
  int64_t ringSlots =
      microbatches ? static_cast<int64_t>(microbatches->op.getSlots()) : 1;
  for (SlotOp slot : program.getBody().front().getOps<SlotOp>()) {
    auto first = static_cast<int64_t>(slot.getFirst()),
         last = static_cast<int64_t>(slot.getLast());
    bool inside = first < end && last >= begin;
    bool outside = first < begin || last >= end || isBoundary(slot);
    auto reject = [&] {
      return slot.emitOpError("'")
             << slot.getName() << "' is live from command " << first << " to "
             << last << ", expected ";
    };
    if (slot.getRing()) {
      if (outside || slot.getState())
        return reject()
               << "a slot that is live only in micro-batches, from command "
               << begin << " to " << end - 1 << ", because it has a ring";
      if (slot.getInstances() != ringSlots)
        return slot.emitOpError("'")
               << slot.getName() << "' has " << slot.getInstances()
               << " instances, expected " << ringSlots
               << ", the number of ring slots of kilnrt.microbatches";
      continue;
    }
    if (slot.getState() || !inside)
      continue;
    if (outside && (first > begin || last < end - 1) &&
        !beginsInLastExecution(slot, microbatches))
      return reject()
             << "a slot that is live in all micro-batches, from command "
             << begin << " to " << end - 1;
    if (!outside && ringSlots > 1 && first < backward && last >= backward)
      return reject() << "a slot with a ring, because it stores values from "
                         "the forward to the backward segment while several "
                         "micro-batches are in flight";
  }
  return success();
}

static LogicalResult checkAlive(Operation *op, SlotOp slot, int64_t index) {
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
             << "' is not a built-in input, so the runtime has no value for "
                "it: declare it with #kiln.input<data> to supply one";
  if (commands.empty())
    return success();
  for (InputOp input : block.getOps<InputOp>())
    if (failed(checkAlive(input, input.getView().getSlotOp(), 0)))
      return failure();
  for (OutputOp output : block.getOps<OutputOp>())
    if (failed(checkAlive(output, output.getView().getSlotOp(),
                          commands.size() - 1)))
      return failure();
  return checkMicrobatches(program);
}

LogicalResult rt::verifySchedule(rt::ProgramOp program) {
  SmallVector<Operation *> commands = commandsOf(program);
  SmallVector<int64_t> owners = ownersOf(program);
  for (int64_t owner : owners)
    if (failed(checkDisjoint(program, owner)))
      return failure();
  if (failed(checkLives(program, commands)))
    return failure();
  for (int64_t owner : owners)
    if (failed(verifyQueueOrder(program, commands, owner)))
      return failure();
  return success();
}
