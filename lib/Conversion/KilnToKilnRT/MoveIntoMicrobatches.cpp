//===- MoveIntoMicrobatches.cpp - Commands of one execution ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves commands from before and after the micro-batches into the forward or
// backward segment. There they are executed only in the first, or only in the
// last, of the executions of the segment:
//
//   begin                     begin
//   wait %a                   ...
//   ...                       ...
//   forward                   forward
//     ...                       ...
//     use (%a)                  wait %a              when first
//                       -->     use (%a)
//   backward                  backward
//     add to the sum %g         add to the sum %g
//     ...                       copy %g to the host  when last
//   end                         ...
//   copy %g to the host       end
//
// Transfers then overlap with the commands of the first and of the last
// micro-batch. A command after the micro-batches moves if both conditions hold:
//
//   - it starts a transfer or accesses the host, or a command that does so
//     depends on it;
//   - it depends on commands of the backward segment, but not on the last
//     command of the segment.
//
// Moved commands keep their order. At least one command stays outside of the
// micro-batches, so that a buffer that is live in all micro-batches can have a
// lifetime that extends beyond them.
//
// Two commands depend on each other if both access a buffer and one of them
// writes it. A copy accesses its source and its destination at its start and
// at its wait.
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "llvm/ADT/STLExtras.h"

using namespace mlir;
using namespace kiln;

namespace {

/// For each buffer, the last position at which a command reads the buffer, and
/// the last position at which a command writes the buffer.
class LastAccesses {
public:
  static constexpr int64_t never = -1;

  void add(const Command &command, int64_t position) {
    command.forEachAccess([&](int32_t buffer, bool writes) {
      auto &last = writes ? written : read;
      int64_t &known = last.try_emplace(buffer, never).first->second;
      known = std::max(known, position);
    });
  }
  /// Returns the position of the last added command on which `command` depends,
  /// or `never` if there is none.
  int64_t before(const Command &command) const {
    int64_t position = never;
    auto look = [&](const llvm::DenseMap<int32_t, int64_t> &last,
                    int32_t buffer) {
      if (auto found = last.find(buffer); found != last.end())
        position = std::max(position, found->second);
    };
    command.forEachAccess([&](int32_t buffer, bool writes) {
      look(written, buffer);
      if (writes)
        look(read, buffer);
    });
    return position;
  }
  /// Returns true if `command` and one of the added commands depend on each
  /// other.
  bool conflictWith(const Command &command) const {
    return before(command) != never;
  }

private:
  llvm::DenseMap<int32_t, int64_t> read, written;
};

class MicrobatchMover {
public:
  explicit MicrobatchMover(ProgramPlan &plan)
      : plan(plan), commands(plan.commands), bounds(plan.microbatches) {}
  void delayWaits();
  void advanceTransfers();

private:
  std::vector<bool> findMovable() const;
  bool isTransfer(const Command &command) const;
  int64_t firstUse(int64_t wait) const;
  /// Returns the accesses of the backward segment. Positions are indices of
  /// commands.
  LastAccesses accessesOfBackward() const {
    LastAccesses accesses;
    for (int64_t i = bounds.backward; i < bounds.end; ++i)
      accesses.add(commands[i], i);
    return accesses;
  }

  ProgramPlan &plan;
  std::vector<Command> &commands;
  PlannedMicrobatches &bounds;
};

} // namespace

/// Returns the index of the first command that follows the command `wait` and
/// depends on `wait`. Returns -1 if no command does, or if the first such
/// command is outside of the micro-batches.
int64_t MicrobatchMover::firstUse(int64_t wait) const {
  LastAccesses own;
  own.add(commands[wait], 0);
  for (int64_t i = wait + 1; i < bounds.end; ++i)
    if (own.conflictWith(commands[i]))
      return i < bounds.forward ? -1 : i;
  return -1;
}

/// Moves each wait into the first segment (forward or backward) that uses the
/// transferred bytes.
void MicrobatchMover::delayWaits() {
  /// The waits to insert before a command of the micro-batches, keyed by the
  /// index of the command.
  llvm::DenseMap<int64_t, SmallVector<Command, 1>> before;
  std::vector<Command> ordered;
  ordered.reserve(commands.size());
  for (int64_t i = 0; i < bounds.forward; ++i) {
    int64_t use =
        commands[i].kind == Command::Kind::TransferWait ? firstUse(i) : -1;
    if (use < 0) {
      ordered.push_back(std::move(commands[i]));
      continue;
    }
    commands[i].when = rt::When::First;
    before[use].push_back(std::move(commands[i]));
  }
  PlannedMicrobatches moved = bounds;
  moved.forward = static_cast<int64_t>(ordered.size());
  for (int64_t i = bounds.forward, e = commands.size(); i < e; ++i) {
    if (i == bounds.backward)
      moved.backward = static_cast<int64_t>(ordered.size());
    if (auto found = before.find(i); found != before.end())
      llvm::move(found->second, std::back_inserter(ordered));
    ordered.push_back(std::move(commands[i]));
    if (i + 1 == bounds.end)
      moved.end = static_cast<int64_t>(ordered.size());
  }
  commands = std::move(ordered);
  bounds = moved;
}

/// Returns true for the start of a transfer, and for a command that accesses
/// the host.
bool MicrobatchMover::isTransfer(const Command &command) const {
  if (command.kind == Command::Kind::TransferWait)
    return false;
  return command.startsTransfer() ||
         llvm::any_of(command.places, [&](const Place &place) {
           return plan.buffers[place.buffer].memory == MemorySpace::Host;
         });
}

/// Returns a flag for each command after the micro-batches: true if the command
/// can move into the last execution of the backward segment.
std::vector<bool> MicrobatchMover::findMovable() const {
  auto end = static_cast<int64_t>(commands.size());
  std::vector<bool> movable(end - bounds.end);
  LastAccesses inside = accessesOfBackward(), staying;
  for (int64_t i = bounds.end; i < end; ++i) {
    int64_t position = inside.before(commands[i]);
    // Move only if this command depends on commands of the backward segment,
    // but neither on the last command of the segment nor on an earlier command
    // that stays.
    bool moves = position != LastAccesses::never && position < bounds.end - 1 &&
                 !staying.conflictWith(commands[i]);
    movable[i - bounds.end] = moves;
    if (moves)
      inside.add(commands[i], position);
    else
      staying.add(commands[i], i);
  }
  return movable;
}

/// Moves transfers, and the commands that they depend on, into the last
/// execution of the backward segment.
void MicrobatchMover::advanceTransfers() {
  std::vector<bool> moves = findMovable();
  LastAccesses inside = accessesOfBackward();
  // A command also moves if a later command that moves depends on it. Visit the
  // later commands first.
  LastAccesses needed;
  for (int64_t i = static_cast<int64_t>(commands.size()) - 1; i >= bounds.end;
       --i) {
    auto &&move = moves[i - bounds.end];
    move =
        move && (isTransfer(commands[i]) || needed.conflictWith(commands[i]));
    if (move)
      needed.add(commands[i], 0);
  }
  if (bounds.forward == 0 && !moves.empty() &&
      llvm::all_of(moves, [](bool move) { return move; }))
    moves.back() = false;
  std::vector<Command> ordered, staying;
  ordered.reserve(commands.size());
  int64_t next = 0;
  /// Appends to `ordered` the next commands, up to the one with index `last`.
  auto appendUpTo = [&](int64_t last) {
    for (; next <= last; ++next)
      ordered.push_back(std::move(commands[next]));
  };
  for (int64_t i = bounds.end, e = commands.size(); i < e; ++i) {
    if (!moves[i - bounds.end]) {
      staying.push_back(std::move(commands[i]));
      continue;
    }
    appendUpTo(inside.before(commands[i]));
    commands[i].when = rt::When::Last;
    inside.add(commands[i], next - 1);
    ordered.push_back(std::move(commands[i]));
  }
  appendUpTo(bounds.end - 1);
  bounds.end = static_cast<int64_t>(ordered.size());
  llvm::move(staying, std::back_inserter(ordered));
  commands = std::move(ordered);
}

void kiln::moveIntoMicrobatches(ProgramPlan &plan) {
  if (!plan.microbatches.op)
    return;
  MicrobatchMover mover(plan);
  mover.delayWaits();
  mover.advanceTransfers();
}
