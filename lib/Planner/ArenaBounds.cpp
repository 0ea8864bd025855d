//===- ArenaBounds.cpp - Bounds of the exact search -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The bound of an unplaced item is an offset below which the item cannot start.
// After a change, this file raises the bounds of sleeping items (items that
// cannot be at the lowest free offset and wait until it rises; see
// ArenaSearch.h). It then checks whether the items still fit in each section
// (set of buffers that are live together) in which a bound rose or an item was
// placed. Bounds may be lower than necessary, which costs time but never
// excludes a solution.
//
//===----------------------------------------------------------------------===//

#include "ArenaSearch.h"

#include <limits>

using namespace kiln;
using namespace kiln::arena;

static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

/// The bounds of two sleeping items (items that wait until their lowest free
/// offset rises) can raise each other many times in small steps. Propagation
/// stops after this number of rounds, because most of the rise occurs in the
/// first rounds.
static constexpr int kMaxRounds = 4;

void ArenaSearch::startPropagation() {
  ++stamp;
  touched.clear();
  changedFirst = numSections;
  changedLast = 0;
}

void ArenaSearch::touch(const Item &item) {
  for (int32_t s = item.first; s < item.last; ++s)
    if (touchStamps[s] != stamp) {
      touchStamps[s] = stamp;
      touched.push_back(s);
    }
  changedFirst = std::min(changedFirst, item.first);
  changedLast = std::max(changedLast, item.last);
  steps += item.numSections();
}

/// Raises the bound of an item. The caller must have saved the old bound on the
/// undo stack, `trail`.
void ArenaSearch::raiseBound(int32_t item, int64_t bound) {
  bounds[item] = bound;
  touch(items[item]);
}

bool ArenaSearch::propagate(const Frame &frame) {
  for (int round = 0; round < kMaxRounds && changedFirst < changedLast;
       ++round) {
    const int32_t first = changedFirst, last = changedLast;
    changedFirst = numSections;
    changedLast = 0;
    for (size_t i = frame.part.begin; i != frame.part.end; ++i) {
      int32_t item = pool[i];
      if (!isPlaced[item] && isAsleep(item) && items[item].first < last &&
          first < items[item].last && !raiseSleeping(frame, item))
        return false;
    }
    steps += frame.part.end - frame.part.begin;
  }
  for (int32_t section : touched)
    if (!sectionFits(section)) {
      weights[section] += 1;
      return false;
    }
  return true;
}

/// Raises the bound of a sleeping item, that is, an item that will be placed
/// directly above a conflicting item that is not placed yet. The bound is the
/// lowest end offset that any of these conflicting items can have. Returns
/// false if the sleeping item then exceeds the capacity, or if no unplaced item
/// conflicts with it.
bool ArenaSearch::raiseSleeping(const Frame &frame, int32_t item) {
  const Item &self = items[item];
  int64_t lowestTop = kNever;
  for (size_t i = frame.part.begin; i != frame.part.end; ++i) {
    int32_t other = pool[i];
    if (other != item && !isPlaced[other] && items[other].conflictsWith(self))
      lowestTop = std::min(lowestTop, bounds[other] + items[other].size);
  }
  steps += frame.part.end - frame.part.begin;
  if (lowestTop == kNever)
    return false;
  int64_t bound = alignUp(lowestTop, self.alignment);
  if (bound <= bounds[item])
    return true;
  if (bound + self.size > capacity) {
    for (int32_t s = self.first; s < self.last; ++s)
      weights[s] += 1.0 / self.numSections();
    return false;
  }
  record(item);
  raiseBound(item, bound);
  return true;
}

/// Returns true if the unplaced items of a section (a set of buffers that are
/// live together) fit within the capacity. Each item starts at or above its
/// bound.
bool ArenaSearch::sectionFits(int32_t section) {
  const int64_t total = unplacedSize[section];
  if (total == 0)
    return true;
  jobs.clear();
  int64_t earliest = kNever, latest = 0;
  const size_t begin = sectionBegin[section], end = sectionBegin[section + 1];
  for (size_t i = begin; i != end; ++i) {
    int32_t item = sectionItems[i];
    if (isPlaced[item])
      continue;
    jobs.emplace_back(bounds[item], items[item].size);
    earliest = std::min(earliest, bounds[item]);
    latest = std::max(latest, bounds[item]);
  }
  steps += 2 * (end - begin);
  if (latest + total <= capacity)
    return true;
  if (earliest + total > capacity)
    return false;
  std::sort(jobs.begin(), jobs.end());
  steps += 4 * jobs.size();
  int64_t finish = 0;
  for (auto [start, size] : jobs)
    finish = std::max(finish, start) + size;
  return finish <= capacity;
}
