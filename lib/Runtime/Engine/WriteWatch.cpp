//===- WriteWatch.cpp - Detection of unplanned writes ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WriteWatch.h"

#include "kiln/Support/Messages.h"

#include <algorithm>
#include <cstring>

using namespace kiln::support;

namespace kiln::runtime {

static int64_t pagesOf(const Arena &arena) {
  return arena.data()
             ? (arena.bytes() + Arena::marginBytes) / WriteWatch::pageBytes
             : 0;
}

WriteWatch::WriteWatch(const ProgramFile &file, const Program &program,
                       const Arenas &arenas, int64_t pageBudget)
    : file_(file), program_(program), arenas_(arenas),
      totalPages_(pagesOf(arenas.of(ArenaKind::Device)) +
                  pagesOf(arenas.of(ArenaKind::Host))) {
  for (const Slot &slot : program.slots)
    if (slot.slotClass == SlotClass::Workspace &&
        slot.arena == ArenaKind::Device)
      workspaces_.push_back(&slot);
  int64_t stride = 1;
  if (totalPages_ > pageBudget) {
    stride = (totalPages_ + pageBudget - 1) / pageBudget;
    for (const Slot &slot : program.slots) {
      int64_t instances = slot.ring > 0 ? program.microbatches.slots : 1;
      for (int64_t i = 0; i < instances; ++i) {
        int64_t begin = slot.offset + i * slot.ring;
        pages_.push_back(
            {slot.arena, std::max<int64_t>(begin - 1, 0) / pageBytes});
        pages_.push_back({slot.arena, (begin + slot.bytes) / pageBytes});
      }
    }
  }
  for (ArenaKind kind : arenaKinds)
    for (int64_t page = 0; page < pagesOf(arenas.of(kind)); page += stride)
      pages_.push_back({kind, page});
  std::sort(pages_.begin(), pages_.end());
  pages_.erase(std::unique(pages_.begin(), pages_.end()), pages_.end());
}

void WriteWatch::begin() {
  copy_.resize(pages_.size() * size_t(pageBytes));
  for (size_t i = 0; i < pages_.size(); ++i)
    std::memcpy(copy_.data() + i * size_t(pageBytes), dataOf(pages_[i]),
                size_t(pageBytes));
  // The first write to a protected page takes about as long as four comparisons
  // of a page, so do not watch arenas of which only a sample is compared.
  if (watchedPages() < totalPages())
    return;
  for (ArenaKind kind : arenaKinds)
    if (const Arena &arena = arenas_.of(kind); arena.data())
      written_[size_t(kind)].emplace(arena.data(), pagesOf(arena) * pageBytes);
}

/// Returns true if `slot` is live at the command, and the instance of the slot
/// that the execution `run` uses contains `place`.
static bool liesIn(const Slot &slot, size_t command, const abi::SegmentRun &run,
                   const Place &place) {
  int64_t begin = slot.at(run).offset;
  return slot.arena == place.arena && slot.first <= int64_t(command) &&
         int64_t(command) <= slot.last && begin <= place.offset &&
         place.offset < begin + slot.bytes;
}

/// Adds the live slots and the states that contain `place` to `allowed`.
/// `place` is the first byte of a result of the command.
void WriteWatch::allowAt(size_t command, const abi::SegmentRun &run,
                         const Place &place,
                         std::vector<Range> &allowed) const {
  for (const Slot &slot : program_.slots)
    if (liesIn(slot, command, run, place)) {
      int64_t begin = slot.at(run).offset;
      allowed.push_back({slot.arena, begin, begin + slot.bytes});
    }
  if (place.offset >= file_.stateBytesOf(place.arena))
    return;
  for (size_t i = 0; i < file_.statePlaces.size(); ++i) {
    if (!file_.description.states[i].isHere)
      continue;
    const Place &state = file_.statePlaces[i];
    int64_t end = state.offset + file_.description.states[i].bytes();
    if (state.arena == place.arena && state.offset <= place.offset &&
        place.offset < end)
      allowed.push_back({state.arena, state.offset, end});
  }
}

std::vector<WriteWatch::Range>
WriteWatch::allowedWrites(size_t index, const abi::SegmentRun &run) const {
  std::vector<Range> allowed;
  for (const MemoryAccess &access : accessesOf(program_.commands[index])) {
    Place place = access.ref.at(run);
    if (access.isTemporary())
      allowed.push_back(
          {place.arena, place.offset, place.offset + access.bytes});
    else if (access.writes())
      allowAt(index, run, place, allowed);
  }
  std::sort(allowed.begin(), allowed.end(), [](const Range &a, const Range &b) {
    return std::tie(a.arena, a.begin) < std::tie(b.arena, b.begin);
  });
  return allowed;
}

std::string WriteWatch::describeByte(size_t command, const abi::SegmentRun &run,
                                     const Place &place) const {
  int64_t offset = place.offset;
  std::string text = "byte " + std::to_string(offset) +
                     (place.arena == ArenaKind::Host ? " on the host" : "");
  for (size_t i = 0; i < file_.statePlaces.size(); ++i) {
    if (!file_.description.states[i].isHere)
      continue;
    const Place &state = file_.statePlaces[i];
    if (state.arena == place.arena && state.offset <= offset &&
        offset < state.offset + file_.description.states[i].bytes())
      return text + " of state " + inQuotes(file_.description.states[i].name);
  }
  for (const Slot &slot : program_.slots)
    if (liesIn(slot, command, run, place))
      return text + " of live slot " + inQuotes(slot.name);
  for (const Slot &slot : program_.slots) {
    int64_t distance = offset - slot.offset;
    if (slot.ring > 0 && slot.arena == place.arena && distance >= 0 &&
        distance / slot.ring < program_.microbatches.slots &&
        distance % slot.ring < slot.bytes &&
        program_.microbatches.contains(int64_t(command)))
      return text + " of slot " + inQuotes(slot.name) +
             " of another micro-batch";
  }
  return text + ", in no live slot";
}

void WriteWatch::comparePage(size_t index, size_t command,
                             const abi::SegmentRun &run,
                             const std::vector<Range> &allowed) {
  const Page &page = pages_[index];
  int64_t begin = page.begin();
  char *before = copy_.data() + index * size_t(pageBytes);
  const char *now = dataOf(page);
  if (std::memcmp(before, now, size_t(pageBytes)) == 0)
    return;
  auto range =
      std::find_if(allowed.begin(), allowed.end(), [&](const Range &entry) {
        return entry.arena == page.arena;
      });
  // Maximum end of all allowed ranges that begin at or before the current byte.
  int64_t allowedEnd = 0;
  for (int64_t i = 0; i < pageBytes; ++i) {
    int64_t offset = begin + i;
    for (; range != allowed.end() && range->arena == page.arena &&
           range->begin <= offset;
         ++range)
      allowedEnd = std::max(allowedEnd, range->end);
    if (before[i] == now[i] || offset < allowedEnd)
      continue;
    if (violation_.empty())
      violation_ = "command " + std::to_string(command) + " " +
                   inQuotes(program_.commands[command].name) +
                   program_.ofMicrobatch(command, run) + " changed " +
                   describeByte(command, run, {offset, page.arena});
    break;
  }
  for (const Slot *slot : workspaces_) {
    if (page.arena != ArenaKind::Device || int64_t(command) < slot->first ||
        int64_t(command) > slot->last)
      continue;
    int64_t low = std::max(slot->offset, begin);
    for (int64_t offset =
             std::min(slot->offset + slot->bytes, begin + pageBytes);
         offset > low && offset > workspaceEnd_; --offset)
      if (before[offset - 1 - begin] != now[offset - 1 - begin])
        workspaceEnd_ = offset;
  }
  std::memcpy(before, now, size_t(pageBytes));
}

void WriteWatch::after(size_t command, const abi::SegmentRun &run) {
  std::vector<Range> allowed = allowedWrites(command, run);
  for (ArenaKind kind : arenaKinds) {
    std::vector<WrittenPages::Range> written = {{0, INT64_MAX}};
    if (written_[size_t(kind)])
      written = written_[size_t(kind)]->take();
    for (const WrittenPages::Range &range : written) {
      auto page = std::lower_bound(pages_.begin(), pages_.end(),
                                   Page{kind, range.begin / pageBytes});
      for (; page != pages_.end() && page->arena == kind &&
             page->begin() < range.end;
           ++page)
        comparePage(size_t(page - pages_.begin()), command, run, allowed);
    }
  }
}

} // namespace kiln::runtime
