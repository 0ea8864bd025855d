//===- ArenaSearch.cpp - Exact search for arena offsets ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements the tree search described in ArenaSearch.h. Paths can be as deep
// as the number of items, so the search uses an explicit stack. The bounds are
// in ArenaBounds.cpp. The key orders, which are orders of preference of the
// items, are in ArenaSearchOrder.cpp.
//
//===----------------------------------------------------------------------===//

#include "ArenaSearch.h"

#include <numeric>
#include <utility>

using namespace kiln;
using namespace kiln::arena;

/// Short runs find placements. The constants are the node limit of the first
/// short run and the growth of the limit from one run to the next.
static constexpr double kShortRun = 1000;
static constexpr double kShortRunGrowth = 1.02;
/// Long runs prove that there is no placement. In total, long runs may use as
/// many nodes as short runs. The node limit doubles from one long run to the
/// next.
static constexpr double kLongRun = 16000;
static constexpr double kLongRunGrowth = 2;
/// A section (a set of buffers that are live together) gains weight when a node
/// of the search is refuted because the unplaced buffers of the section do not
/// fit. The weights decay by this factor from run to run.
static constexpr double kWeightKept = 0.9;

ArenaSearch::ArenaSearch(const Problem &problem)
    : problem(problem), numItems(static_cast<int32_t>(problem.items.size())),
      numSections(static_cast<int32_t>(problem.load.size())),
      weights(problem.load.size(), 0.0) {}

ArenaSearch::Outcome ArenaSearch::fit(int64_t newCapacity, Effort &effort) {
  capacity = newCapacity;
  // A run with fewer nodes than a path from the root to a leaf cannot succeed.
  double shortRun = std::max(kShortRun, 2.0 * numItems);
  double longRun = std::max(kLongRun, 2.0 * numItems);
  double shortRuns = 0, longRuns = 0; // Nodes used.
  for (unsigned run = 0;; ++run) {
    double nodeLimit = shortRun;
    if (longRuns + longRun > shortRuns) {
      shortRuns += shortRun;
      shortRun *= kShortRunGrowth;
    } else {
      nodeLimit = longRun;
      longRuns += longRun;
      longRun *= kLongRunGrowth;
    }
    setOrder(makeOrder(run));
    Outcome outcome = runOnce(static_cast<uint64_t>(nodeLimit), effort);
    effort.spend(std::exchange(steps, 0));
    if (outcome == Outcome::Fits)
      keepPlacement();
    if (outcome != Outcome::Unknown || effort.exhausted())
      return outcome;
    for (double &weight : weights)
      weight *= kWeightKept;
  }
}

ArenaSearch::Outcome ArenaSearch::runOnce(uint64_t nodeLimit, Effort &effort) {
  for (int32_t rank = 0; rank < numItems; ++rank)
    pool.push_back(rank);
  for (int64_t load : problem.load)
    if (load > capacity)
      return Outcome::Infeasible;
  openFrame({0, pool.size()});

  uint64_t nodes = 0;
  enum { Choose, Descend, Refuted } next = Choose;
  while (!frames.empty()) {
    Frame &frame = frames.back();
    switch (next) {
    case Choose: {
      effort.spend(std::exchange(steps, 0));
      ++totalNodes;
      if (++nodes > nodeLimit || effort.exhausted())
        return Outcome::Unknown;
      frame.item = choose(frame);
      if (frame.item < 0) {
        // No unplaced item can be at its floor, the lowest offset above the
        // placed items in its sections. The node has no solution, because in a
        // canonical placement (see ArenaSearch.h) the lowest unplaced item is
        // at its floor.
        frames.pop_back();
        next = Refuted;
      } else if (place(frame, frame.item)) {
        split(frame, frame.item);
        next = Descend;
      } else {
        next = Refuted;
      }
      break;
    }
    case Descend: // Solve the next part; the node is solved if no part is left.
      if (parts.size() > frame.partsMark) {
        Part part = parts.back();
        parts.pop_back();
        openFrame(part);
        next = Choose;
      } else {
        frames.pop_back();
      }
      break;
    case Refuted: // The item cannot be at its lowest possible offset.
      undo(frame);
      if (sleep(frame, frame.item)) {
        frame.trailMark = trail.size();
        next = Choose;
      } else {
        frames.pop_back();
      }
      break;
    }
  }
  return next == Descend ? Outcome::Fits : Outcome::Infeasible;
}

void ArenaSearch::setOrder(std::vector<int32_t> order) {
  itemOfRank = std::move(order);
  items.clear();
  for (int32_t item : itemOfRank)
    items.push_back(problem.items[item]);

  hasTwin.assign(numItems, false);
  for (int32_t rank = 1; rank < numItems; ++rank) {
    const Item &a = items[rank - 1], &b = items[rank];
    hasTwin[rank] = a.size == b.size && a.alignment == b.alignment &&
                    a.first == b.first && a.last == b.last;
  }

  sectionBegin.assign(numSections + 1, 0);
  crossing.assign(numSections, 0);
  for (const Item &item : items)
    for (int32_t s = item.first; s < item.last; ++s) {
      ++sectionBegin[s + 1];
      crossing[s] += s != item.first;
    }
  std::partial_sum(sectionBegin.begin(), sectionBegin.end(),
                   sectionBegin.begin());
  std::vector<size_t> next(sectionBegin.begin(), sectionBegin.end() - 1);
  sectionItems.resize(sectionBegin.back());
  for (int32_t rank = 0; rank < numItems; ++rank)
    for (int32_t s = items[rank].first; s < items[rank].last; ++s)
      sectionItems[next[s]++] = rank;
  steps += 2 * sectionItems.size() + numItems;

  floors.assign(numItems, 0);
  bounds.assign(numItems, 0);
  offsets.assign(numItems, 0);
  sleepFloors.assign(numItems, -1);
  isPlaced.assign(numItems, false);
  unplacedSize = problem.load;
  touchStamps.assign(numSections, 0);
  stamp = 0;
  trail.clear();
  placed.clear();
  frames.clear();
  pool.clear();
  parts.clear();
}

void ArenaSearch::keepPlacement() {
  found.offsets.assign(numItems, 0);
  found.height = 0;
  for (int32_t rank = 0; rank < numItems; ++rank) {
    found.offsets[itemOfRank[rank]] = offsets[rank];
    found.height = std::max(found.height, offsets[rank] + items[rank].size);
  }
}

//===----------------------------------------------------------------------===//
// Nodes of the search.
//===----------------------------------------------------------------------===//

void ArenaSearch::openFrame(Part part) {
  Frame frame;
  frame.part = part;
  frame.item = -1;
  frame.trailMark = trail.size();
  frame.placedMark = placed.size();
  frame.poolMark = pool.size();
  frame.partsMark = parts.size();
  frames.push_back(frame);
}

/// Returns the unplaced item with the lowest floor. The floor is the lowest
/// offset above the placed items whose lifetimes overlap with that of the item.
/// Skips items that must not be placed yet: those that sleep (see
/// ArenaSearch.h) or wait for an equal item. Returns -1 if there is no other
/// item.
int32_t ArenaSearch::choose(const Frame &frame) {
  int32_t best = -1;
  for (size_t i = frame.part.begin; i != frame.part.end; ++i) {
    int32_t item = pool[i];
    if (isAsleep(item) || waitsForTwin(item))
      continue;
    if (best < 0 || floors[item] < floors[best] ||
        (floors[item] == floors[best] && item < best))
      best = item;
  }
  steps += frame.part.end - frame.part.begin;
  return best;
}

/// Places an item at its floor, the lowest offset above the placed items whose
/// lifetimes overlap with that of the item. Returns false if the bounds prove
/// that the remaining items do not fit.
bool ArenaSearch::place(const Frame &frame, int32_t item) {
  const Item &self = items[item];
  const int64_t top = floors[item] + self.size;
  offsets[item] = floors[item];
  isPlaced[item] = true;
  placed.push_back(item);
  for (int32_t s = self.first; s < self.last; ++s) {
    unplacedSize[s] -= self.size;
    crossing[s] -= s != self.first;
  }

  startPropagation();
  touch(self);
  for (size_t i = frame.part.begin; i != frame.part.end; ++i) {
    int32_t other = pool[i];
    if (isPlaced[other] || floors[other] >= top ||
        !items[other].conflictsWith(self))
      continue;
    record(other);
    floors[other] = alignUp(top, items[other].alignment);
    if (floors[other] > bounds[other])
      raiseBound(other, floors[other]);
  }
  steps += frame.part.end - frame.part.begin;
  return propagate(frame);
}

/// Puts an item to sleep, which means that it is not tried again until its
/// floor, the lowest offset above the placed items in its sections, has risen.
/// Also puts to sleep the equal items that are placed only after it. Returns
/// false if the bounds prove that the search node has no solution.
bool ArenaSearch::sleep(const Frame &frame, int32_t item) {
  startPropagation();
  touch(items[item]);
  do {
    record(item);
    sleepFloors[item] = floors[item];
  } while (++item < numItems && hasTwin[item]);
  return propagate(frame);
}

/// Called after the placement of `item`. Splits the remaining unplaced items of
/// a frame (a node of the search) into independent parts, and pushes the parts.
void ArenaSearch::split(const Frame &frame, int32_t item) {
  const size_t begin = pool.size();
  int32_t first = numSections, last = 0;
  for (size_t i = frame.part.begin; i != frame.part.end; ++i) {
    int32_t other = pool[i];
    if (isPlaced[other])
      continue;
    pool.push_back(other);
    first = std::min(first, items[other].first);
    last = std::max(last, items[other].last);
  }
  steps += frame.part.end - frame.part.begin;
  if (begin == pool.size())
    return;

  // A cut is a section s such that no unplaced item is in both s - 1 and s,
  // that is, crossing[s] = 0. Placing the item changes `crossing` only in the
  // sections of the item, so it is sufficient to search these sections for new
  // cuts.
  bool isCut = false;
  const Item &self = items[item];
  for (int32_t s = std::max(self.first, first + 1);
       s < std::min(self.last + 1, last); ++s)
    isCut |= crossing[s] == 0;
  if (!isCut) {
    parts.push_back({begin, pool.size()});
    return;
  }

  std::sort(pool.begin() + begin, pool.end(), [&](int32_t a, int32_t b) {
    return items[a].first != items[b].first ? items[a].first < items[b].first
                                            : a < b;
  });
  steps += 8 * (pool.size() - begin);
  Part part = {begin, begin};
  int32_t reach = items[pool[begin]].last;
  for (; part.end != pool.size(); ++part.end) {
    const Item &next = items[pool[part.end]];
    if (next.first >= reach) {
      parts.push_back(part);
      part.begin = part.end;
    }
    reach = std::max(reach, next.last);
  }
  parts.push_back(part);
  // The part that is pushed last is solved first. Push the smallest part last,
  // because it takes the least time to refute.
  std::sort(parts.begin() + frame.partsMark, parts.end(), [](Part a, Part b) {
    size_t sizeA = a.end - a.begin, sizeB = b.end - b.begin;
    return sizeA != sizeB ? sizeA > sizeB : a.begin < b.begin;
  });
}

/// Restores the state before `frame` placed its item.
void ArenaSearch::undo(const Frame &frame) {
  for (; trail.size() > frame.trailMark; trail.pop_back()) {
    const Change &change = trail.back();
    floors[change.item] = change.floor;
    bounds[change.item] = change.bound;
    sleepFloors[change.item] = change.sleepFloor;
  }
  for (; placed.size() > frame.placedMark; placed.pop_back()) {
    int32_t item = placed.back();
    isPlaced[item] = false;
    const Item &self = items[item];
    for (int32_t s = self.first; s < self.last; ++s) {
      unplacedSize[s] += self.size;
      crossing[s] += s != self.first;
    }
    steps += self.numSections();
  }
  pool.resize(frame.poolMark);
  parts.resize(frame.partsMark);
}
