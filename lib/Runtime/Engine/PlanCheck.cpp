//===- PlanCheck.cpp - Checks of programs against their plans -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanCheck.h"

#include "WriteWatch.h"
#include "kiln/Support/Messages.h"

#define XXH_INLINE_ALL
#include <algorithm>
#include <cstring>
#include <tuple>
#include <xxhash.h>

using namespace kiln::support;

namespace kiln::runtime {

/// Maximum number of bytes per program that the check "writes" compares.
static constexpr int64_t compareBudgetBytes = int64_t(24) << 30;
/// Maximum number of bytes of which the check "writes" stores a copy.
static constexpr int64_t copyBudgetBytes = int64_t(512) << 20;

static constexpr unsigned char nanPattern = 0xff;
static constexpr unsigned char hugePattern = 0x7e;

void PlanCheck::report(size_t index, const std::string &check,
                       std::string expected, std::string found, bool ok) {
  lines_.push_back({file_.description.programs[index].name + ": " + check,
                    std::move(expected), std::move(found), ok});
}

Status PlanCheck::runPainted(size_t index, unsigned char pattern,
                             CommandObserver *observer,
                             SerialTransfers::When when) {
  for (ArenaKind kind : arenaKinds) {
    Arena &arena = arenas_.of(kind);
    int64_t states = file_.stateBytesOf(kind);
    if (arena.data())
      std::memset(arena.data() + states, pattern,
                  size_t(arena.bytes() - states + Arena::marginBytes));
  }
  Status status = prepare_(index);
  if (!status.ok())
    return status;
  return runner_.runInOrder(index, observer, when);
}

uint64_t PlanCheck::results(size_t index) const {
  uint64_t hash = 0;
  auto add = [&](const Place &place, int64_t bytes) {
    hash = XXH3_64bits_withSeed(arenas_.at(place), size_t(bytes), hash);
  };
  const ProgramInfo &info = file_.description.programs[index];
  for (size_t i = 0; i < info.outputs.size(); ++i)
    add({file_.programs[index].outputOffsets[i]}, info.outputs[i].bytes());
  for (size_t i = 0; i < file_.statePlaces.size(); ++i)
    if (file_.description.states[i].isHere)
      add(file_.statePlaces[i], file_.description.states[i].bytes());
  return hash;
}

int64_t PlanCheck::highestChanged(ArenaKind kind, unsigned char pattern) const {
  const Arena &arena = arenas_.of(kind);
  int64_t states = file_.stateBytesOf(kind);
  if (!arena.data())
    return states;
  int64_t end = arena.bytes() + Arena::marginBytes;
  while (end > states && (unsigned char)(arena.data()[end - 1]) == pattern)
    --end;
  return end;
}

void PlanCheck::reportEnd(size_t index, ArenaKind kind, int64_t found) {
  if (!arenas_.of(kind).data())
    return;
  const Program &program = file_.programs[index];
  int64_t highest = file_.stateBytesOf(kind), highestButWorkspace = highest;
  // The order of the micro-batches may need fewer buffer instances (ring slots)
  // than are planned.
  int64_t lastUsed = 0;
  for (const ProgramRun &entry : program.runs)
    lastUsed = std::max(lastUsed, entry.run.slot);
  for (const Slot &slot : program.slots) {
    if (slot.arena != kind)
      continue;
    int64_t end = slot.offset + slot.ring * lastUsed + slot.bytes;
    highest = std::max(highest, end);
    if (slot.slotClass != SlotClass::Workspace)
      highestButWorkspace = std::max(highestButWorkspace, end);
  }
  // If the highest slot is a workspace, its last bytes may be unchanged,
  // because the vendor library and idle threads need not write all of a
  // workspace.
  bool ok =
      found == highest || (found >= highestButWorkspace && found < highest);
  report(index,
         kind == ArenaKind::Host
             ? "bytes of the host arena up to the last byte written"
             : "bytes of the arena up to the last byte written",
         std::to_string(highest), std::to_string(found), ok);
}

Status PlanCheck::checkPaint(size_t index) {
  int64_t found[2] = {0, 0}; // Device arena, host arena.
  uint64_t hashes[2];
  unsigned char patterns[2] = {nanPattern, hugePattern};
  for (int i = 0; i < 2; ++i) {
    Status status = runPainted(index, patterns[i]);
    if (!status.ok())
      return status;
    for (ArenaKind kind : arenaKinds)
      found[size_t(kind)] =
          std::max(found[size_t(kind)], highestChanged(kind, patterns[i]));
    hashes[i] = results(index);
  }
  expectedResults_ = hashes[0];
  for (ArenaKind kind : arenaKinds)
    reportEnd(index, kind, found[size_t(kind)]);
  report(index, "results for two different initial contents of the memory",
         "equal", hashes[0] == hashes[1] ? "equal" : "different",
         hashes[0] == hashes[1]);
  return Status();
}

Status PlanCheck::checkTransfers(size_t index) {
  int64_t transfers = file_.programs[index].tokens;
  if (transfers == 0)
    return Status();
  Status status =
      runPainted(index, nanPattern, nullptr, SerialTransfers::When::Wait);
  if (!status.ok())
    return status;
  bool equal = results(index) == expectedResults_;
  report(index,
         "results with " + std::to_string(transfers) +
             " transfers executed at their waits instead of their starts",
         "equal", equal ? "equal" : "different", equal);
  return Status();
}

Status PlanCheck::checkWrites(size_t index) {
  const Program &program = file_.programs[index];
  int64_t executions = 1;
  for (size_t i = 0; i < program.commands.size(); ++i)
    executions += program.executionsOf(i);
  int64_t bytes = std::min(compareBudgetBytes / executions, copyBudgetBytes);
  WriteWatch watch(file_, program, arenas_,
                   std::max<int64_t>(bytes / WriteWatch::pageBytes, 1));
  Status status = runPainted(index, nanPattern, &watch);
  if (!status.ok())
    return status;
  bool all = watch.watchedPages() == watch.totalPages();
  report(index,
         all ? "each command changes only its results"
             : "each command changes only its results (" +
                   std::to_string(watch.watchedPages()) + " of " +
                   std::to_string(watch.totalPages()) + " pages watched)",
         "no other change",
         watch.violation().empty() ? "no other change" : watch.violation(),
         watch.violation().empty());

  int64_t planned = 0;
  for (const Slot &slot : program.slots)
    if (slot.slotClass == SlotClass::Workspace &&
        slot.arena == ArenaKind::Device)
      planned = std::max(planned, slot.offset + slot.bytes);
  if (planned > 0 && all)
    report(index, "bytes of the arena up to the last workspace byte written",
           "at most " + std::to_string(planned),
           std::to_string(watch.workspaceEnd()),
           watch.workspaceEnd() <= planned);
  return Status();
}

namespace {

/// Fills slots with NaN after their last use. A slot with a lifetime for each
/// micro-batch is filled in each micro-batch, and any other slot is filled
/// once.
class Poisoner final : public CommandObserver {
public:
  Poisoner(const ProgramFile &file, size_t index, const Arenas &arenas);

  size_t candidates() const { return ends_.size(); }
  const Slot &candidate(size_t i) const { return *ends_[i].slot; }
  /// Selects candidates [begin, end) for poisoning.
  void choose(size_t begin, size_t end) {
    begin_ = begin;
    end_ = end;
  }
  void after(size_t command, const abi::SegmentRun &run) override;

private:
  /// The end of a slot's lifetime.
  struct End {
    int64_t command; ///< The last command of the lifetime.
    const Slot *slot;

    bool operator<(const End &other) const {
      return std::tie(command, slot) < std::tie(other.command, other.slot);
    }
  };

  int64_t endOf(const Slot &slot) const;
  void poison(const End &end, const abi::SegmentRun &run);
  bool isIntegerInput(const Slot &slot) const;

  const ProgramFile &file_;
  size_t index_;
  const Program &program_;
  const Arenas &arenas_;
  std::vector<End> ends_; ///< Sorted by the last command.
  size_t begin_ = 0, end_ = 0;
};

} // namespace

Poisoner::Poisoner(const ProgramFile &file, size_t index, const Arenas &arenas)
    : file_(file), index_(index), program_(file.programs[index]),
      arenas_(arenas) {
  for (const Slot &slot : program_.slots)
    if (slot.offset >= file.stateBytesOf(slot.arena) && slot.bytes > 0 &&
        slot.slotClass != SlotClass::Output && slot.last >= 0 &&
        slot.last < int64_t(program_.commands.size()))
      ends_.push_back({endOf(slot), &slot});
  std::sort(ends_.begin(), ends_.end());
  end_ = ends_.size();
}

/// Returns the index of the last command of the slot's lifetime. For a slot
/// that is live during all micro-batches and not after them, this is the last
/// command that the last execution of the backward segment executes. If that
/// execution executes no command, returns INT64_MAX, and the slot is not
/// filled.
int64_t Poisoner::endOf(const Slot &slot) const {
  int64_t end = program_.lifetimeOf(slot).last;
  if (program_.livesPerMicrobatch(slot) || !program_.microbatches.contains(end))
    return end;
  auto backward = int64_t(program_.microbatches.backward);
  // If there are several micro-batches, the last execution does not execute the
  // commands with When::First.
  bool skipsFirst = program_.microbatches.count > 1;
  while (skipsFirst && end >= backward &&
         program_.commands[size_t(end)].when == When::First)
    --end;
  return end >= backward ? end : INT64_MAX;
}

/// Returns true if the slot is an integer input. Such slots are filled with
/// zero instead of NaN, because a NaN pattern used as a token would be an index
/// out of bounds.
bool Poisoner::isIntegerInput(const Slot &slot) const {
  const ProgramInfo &info = file_.description.programs[index_];
  for (size_t i = 0; i < info.inputs.size(); ++i)
    if (slot.arena == ArenaKind::Device &&
        program_.inputOffsets[i] == slot.offset)
      return info.inputs[i].type == ElementType::I32 ||
             info.inputs[i].type == ElementType::I64;
  return false;
}

void Poisoner::poison(const End &end, const abi::SegmentRun &run) {
  const Slot &slot = *end.slot;
  int pattern = isIntegerInput(slot) ? 0 : nanPattern;
  // Skip the bytes that also belong to another slot that is live both at the
  // last use of this slot and later.
  std::vector<const Slot *> heirs;
  for (const Slot &other : program_.slots)
    if (&other != &slot && other.arena == slot.arena &&
        other.first <= end.command &&
        (endOf(other) > end.command || other.slotClass == SlotClass::Output) &&
        other.at(run).offset < slot.at(run).offset + slot.bytes &&
        slot.at(run).offset < other.at(run).offset + other.bytes)
      heirs.push_back(&other);
  std::sort(heirs.begin(), heirs.end(), [&](const Slot *a, const Slot *b) {
    return a->at(run).offset < b->at(run).offset;
  });
  char *arena = arenas_.of(slot.arena).data();
  int64_t begin = slot.at(run).offset, last = begin + slot.bytes;
  for (const Slot *heir : heirs) {
    int64_t next = heir->at(run).offset;
    if (next > begin)
      std::memset(arena + begin, pattern, size_t(next - begin));
    begin = std::max(begin, next + heir->bytes);
  }
  if (begin < last)
    std::memset(arena + begin, pattern, size_t(last - begin));
}

void Poisoner::after(size_t command, const abi::SegmentRun &run) {
  auto first = std::lower_bound(
      ends_.begin(), ends_.end(), int64_t(command),
      [](const End &end, int64_t value) { return end.command < value; });
  for (auto it = first; it != ends_.end() && it->command == int64_t(command);
       ++it) {
    auto i = size_t(it - ends_.begin());
    // A slot with a lifetime for each micro-batch is filled in every execution
    // of the command, and any other slot only in the last execution.
    if (begin_ <= i && i < end_ &&
        (run.isLast || program_.livesPerMicrobatch(*it->slot)))
      poison(*it, run);
  }
}

Status PlanCheck::checkLifetimes(size_t index, SerialTransfers::When when) {
  Poisoner poisoner(file_, index, arenas_);
  auto changes = [&](size_t begin, size_t end) -> Result<bool> {
    poisoner.choose(begin, end);
    Status status = runPainted(index, nanPattern, &poisoner, when);
    if (!status.ok())
      return status;
    return results(index) != expectedResults_;
  };
  size_t begin = 0, end = poisoner.candidates();
  Result<bool> changed = changes(begin, end);
  if (!changed.ok())
    return changed.status();
  std::string found = "equal";
  if (*changed) {
    // Bisect the candidates until one slot remains: continue with the lower
    // half if overwriting its slots changes the results, and otherwise with the
    // upper half.
    while (end - begin > 1) {
      size_t middle = begin + (end - begin) / 2;
      Result<bool> lower = changes(begin, middle);
      if (!lower.ok())
        return lower.status();
      (*lower ? end : begin) = middle;
    }
    const Slot &slot = poisoner.candidate(begin);
    found = "slot " + inQuotes(slot.name) + " is used after its last command " +
            std::to_string(slot.last);
  }
  report(index,
         "results with " + std::to_string(poisoner.candidates()) +
             " slots overwritten after their last use" +
             (when == SerialTransfers::When::Wait
                  ? ", with the transfers executed at their waits"
                  : ""),
         "equal", found, !*changed);
  return Status();
}

Status PlanCheck::checkProgram(size_t index) {
  if (file_.programs[index].slots.empty()) {
    report(index, "slots in the plan", "some", "none", false);
    return Status();
  }
  Status status = checkPaint(index);
  if (status.ok())
    status = checkTransfers(index);
  if (status.ok())
    status = checkWrites(index);
  if (status.ok())
    status = checkLifetimes(index, SerialTransfers::When::Start);
  if (status.ok() && file_.programs[index].tokens > 0)
    status = checkLifetimes(index, SerialTransfers::When::Wait);
  return status;
}

Status PlanCheck::run() {
  for (size_t i = 0; i < file_.programs.size(); ++i) {
    Status status = checkProgram(i);
    if (!status.ok())
      return status;
  }
  return Status();
}

} // namespace kiln::runtime
