//===- ArenaSearch.cpp - Exact search for arena offsets ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tree search itself; see ArenaSearch.h. It keeps its own stack, because a
// path is as deep as the problem has items. All state is indexed by an item's
// rank in the key order, so that comparing keys is comparing indices.
//
//===----------------------------------------------------------------------===//

#include "ArenaSearch.h"

#include <cassert>
#include <limits>
#include <numeric>

using namespace kiln;
using namespace kiln::arena;

static constexpr int64_t kNever = std::numeric_limits<int64_t>::max();

ArenaSearch::ArenaSearch(const Problem &problem)
    : problem(problem), numItems(static_cast<int32_t>(problem.items.size())),
      numSections(static_cast<int32_t>(problem.load.size())),
      weight(problem.load.size(), 0.0) {}

void ArenaSearch::setOrder(const std::vector<int32_t> &order) {
  rankToItem = order;
  items.clear();
  for (int32_t item : order)
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
      if (s != item.first)
        ++crossing[s];
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
  isPlaced.assign(numItems, false);
  unplacedSize = problem.load;
  touchStamp.assign(numSections, 0);
  stamp = 0;
  trail.clear();
  placed.clear();
  frames.clear();
  pool.clear();
  candidates.clear();
  parts.clear();
}

//===----------------------------------------------------------------------===//
// Bounds
//===----------------------------------------------------------------------===//

void ArenaSearch::record(int32_t item) {
  trail.push_back({item, floors[item], bounds[item]});
}

void ArenaSearch::touch(int32_t firstSection, int32_t lastSection) {
  for (int32_t s = firstSection; s < lastSection; ++s)
    if (touchStamp[s] != stamp) {
      touchStamp[s] = stamp;
      touched.push_back(s);
    }
  steps += lastSection - firstSection;
}

/// Whether the unplaced items of a section can end within the capacity when
/// each starts at its bound or later.
bool ArenaSearch::sectionFits(int32_t section) {
  int64_t total = unplacedSize[section];
  if (total == 0)
    return true;
  jobs.clear();
  int64_t latest = 0, earliest = kNever;
  for (size_t i = sectionBegin[section], e = sectionBegin[section + 1]; i != e;
       ++i) {
    int32_t item = sectionItems[i];
    if (isPlaced[item])
      continue;
    jobs.emplace_back(bounds[item], items[item].size);
    latest = std::max(latest, bounds[item]);
    earliest = std::min(earliest, bounds[item]);
  }
  steps += 2 * (sectionBegin[section + 1] - sectionBegin[section]);
  if (latest + total <= capacity)
    return true;
  if (earliest + total > capacity)
    return false;
  std::sort(jobs.begin(), jobs.end());
  steps += 4 * jobs.size();
  int64_t end = 0;
  for (auto [start, size] : jobs)
    end = std::max(end, start) + size;
  return end <= capacity;
}

bool ArenaSearch::checkTouched() {
  for (int32_t section : touched)
    if (!sectionFits(section)) {
      weight[section] += 1;
      return false;
    }
  return true;
}

/// Raises the bounds of the items that missed their turn, then checks the
/// sections they are in.
bool ArenaSearch::raiseBounds(const Frame &frame) {
  missed.clear();
  for (size_t i = frame.begin; i != frame.end; ++i)
    if (missedTurn(pool[i], frame.lastOffset, frame.lastRank))
      missed.push_back(pool[i]);
  if (missed.empty())
    return true;

  ++stamp;
  touched.clear();
  for (int32_t item : missed) {
    int64_t lowestTop = kNever;
    const Item &self = items[item];
    for (size_t i = frame.begin; i != frame.end; ++i) {
      int32_t other = pool[i];
      if (other != item && items[other].conflictsWith(self))
        lowestTop = std::min(lowestTop, std::max(bounds[other],
                                                 frame.lastOffset) +
                                            items[other].size);
    }
    steps += frame.end - frame.begin;
    if (lowestTop == kNever)
      return false;
    int64_t bound = alignUp(lowestTop, self.alignment);
    if (bound <= bounds[item])
      continue;
    if (bound + self.size > capacity) {
      for (int32_t s = self.first; s < self.last; ++s)
        weight[s] += 1.0 / self.numSections();
      return false;
    }
    record(item);
    bounds[item] = bound;
    touch(self.first, self.last);
  }
  return checkTouched();
}

//===----------------------------------------------------------------------===//
// Moves
//===----------------------------------------------------------------------===//

/// Opens a node and refutes it or finds its candidates. A refuted node leaves
/// changes on the trail, which its parent undoes.
bool ArenaSearch::openFrame(Part part, int64_t lastOffset, int32_t lastRank) {
  Frame frame = {};
  frame.begin = part.begin;
  frame.end = part.end;
  frame.lastOffset = lastOffset;
  frame.lastRank = lastRank;
  frame.firstSection = numSections;
  int64_t ceiling = kNever;
  for (size_t i = part.begin; i != part.end; ++i) {
    const Item &item = items[pool[i]];
    ceiling = std::min(ceiling, floors[pool[i]] + item.size);
    frame.firstSection = std::min(frame.firstSection, item.first);
    frame.lastSection = std::max(frame.lastSection, item.last);
  }
  steps += 2 * (part.end - part.begin);
  if (ceiling <= lastOffset || !raiseBounds(frame))
    return false;
  collectCandidates(frame, ceiling);
  frame.trailMark = trail.size();
  frame.placedMark = placed.size();
  frame.partBegin = parts.size();
  frames.push_back(frame);
  return true;
}

void ArenaSearch::collectCandidates(Frame &frame, int64_t ceiling) {
  frame.candidateBegin = candidates.size();
  for (size_t i = frame.begin; i != frame.end; ++i) {
    int32_t item = pool[i];
    if (floors[item] >= ceiling ||
        missedTurn(item, frame.lastOffset, frame.lastRank))
      continue;
    // Equal items are interchangeable: the lower rank goes first.
    if (hasTwin[item] && !isPlaced[item - 1])
      continue;
    candidates.push_back(item);
  }
  frame.candidateEnd = candidates.size();
  frame.candidate = frame.candidateBegin;
  std::sort(candidates.begin() + frame.candidateBegin, candidates.end(),
            [&](int32_t a, int32_t b) {
              return floors[a] != floors[b] ? floors[a] < floors[b] : a < b;
            });
  steps += 4 * (frame.candidateEnd - frame.candidateBegin);
}

/// Places an item at its floor; false if the bounds refute that.
bool ArenaSearch::place(const Frame &frame, int32_t item) {
  const Item &self = items[item];
  int64_t top = floors[item] + self.size;
  offsets[item] = floors[item];
  isPlaced[item] = true;
  placed.push_back(item);
  for (int32_t s = self.first; s < self.last; ++s) {
    unplacedSize[s] -= self.size;
    if (s != self.first)
      --crossing[s];
  }

  ++stamp;
  touched.clear();
  touch(self.first, self.last);
  for (size_t i = frame.begin; i != frame.end; ++i) {
    int32_t other = pool[i];
    const Item &item = items[other];
    if (isPlaced[other] || floors[other] >= top || !item.conflictsWith(self))
      continue;
    record(other);
    floors[other] = alignUp(top, item.alignment);
    if (floors[other] > bounds[other]) {
      bounds[other] = floors[other];
      touch(item.first, item.last);
    }
  }
  steps += frame.end - frame.begin;
  return checkTouched();
}

/// Pushes the parts that the unplaced items fall into, now that `item` is
/// placed.
void ArenaSearch::split(Frame &frame, int32_t item) {
  size_t begin = pool.size();
  for (size_t i = frame.begin; i != frame.end; ++i)
    if (!isPlaced[pool[i]])
      pool.push_back(pool[i]);
  steps += frame.end - frame.begin;
  if (begin == pool.size())
    return;

  bool connected = true;
  const Item &self = items[item];
  for (int32_t s = self.first; s <= self.last; ++s)
    if (s > frame.firstSection && s < frame.lastSection && crossing[s] == 0)
      connected = false;
  if (unplacedSize[frame.firstSection] == 0)
    connected = false;
  if (connected) {
    parts.push_back({begin, pool.size()});
    return;
  }
  std::stable_sort(pool.begin() + begin, pool.end(), [&](int32_t a, int32_t b) {
    return items[a].first < items[b].first;
  });
  steps += 8 * (pool.size() - begin);
  int32_t reach = items[pool[begin]].last;
  for (size_t i = begin, e = pool.size(); i != e; ++i) {
    if (items[pool[i]].first >= reach) {
      parts.push_back({begin, i});
      begin = i;
    }
    reach = std::max(reach, items[pool[i]].last);
  }
  parts.push_back({begin, pool.size()});
  // Small parts are refuted soonest; the last is taken first.
  std::stable_sort(parts.begin() + frame.partBegin, parts.end(),
                   [](Part a, Part b) {
                     return a.end - a.begin > b.end - b.begin;
                   });
}

/// Restores the state in which `frame` chose its current candidate.
void ArenaSearch::undo(const Frame &frame) {
  while (trail.size() > frame.trailMark) {
    const Change &change = trail.back();
    floors[change.item] = change.floor;
    bounds[change.item] = change.bound;
    trail.pop_back();
  }
  while (placed.size() > frame.placedMark) {
    int32_t item = placed.back();
    placed.pop_back();
    isPlaced[item] = false;
    const Item &self = items[item];
    for (int32_t s = self.first; s < self.last; ++s) {
      unplacedSize[s] += self.size;
      if (s != self.first)
        ++crossing[s];
    }
    steps += self.numSections();
  }
  parts.resize(frame.partBegin);
}

//===----------------------------------------------------------------------===//
// The search
//===----------------------------------------------------------------------===//

ArenaSearch::Outcome ArenaSearch::runOnce(uint64_t nodeLimit, Effort &effort) {
  for (int32_t rank = 0; rank < numItems; ++rank)
    pool.push_back(rank);
  // The root stands for a placement that has the whole problem as its part.
  ++stamp;
  touched.clear();
  touch(0, numSections);
  if (!checkTouched() || !openFrame({0, pool.size()}, 0, -1))
    return Outcome::Infeasible;

  uint64_t nodes = 0;
  enum { Choose, Descend, Refuted } next = Choose;
  while (true) {
    Frame &frame = frames.back();
    if (next == Refuted) {
      undo(frame);
      next = Choose;
    }
    if (next == Choose) {
      pool.resize(frame.end);
      candidates.resize(frame.candidateEnd);
      if (frame.candidate == frame.candidateEnd) {
        candidates.resize(frame.candidateBegin);
        frames.pop_back();
        if (frames.empty())
          return Outcome::Infeasible;
        next = Refuted;
        continue;
      }
      effort.spend(steps);
      steps = 0;
      ++totalNodes;
      if (++nodes > nodeLimit || effort.exhausted())
        return Outcome::Unknown;
      int32_t item = candidates[frame.candidate++];
      if (!place(frame, item)) {
        next = Refuted;
        continue;
      }
      split(frame, item);
      next = Descend;
    }
    // Descend into the next part, or leave a node whose parts are all solved.
    if (parts.size() > frame.partBegin) {
      int32_t item = candidates[frame.candidate - 1];
      Part part = parts.back();
      parts.pop_back();
      next = openFrame(part, offsets[item], item) ? Choose : Refuted;
      continue;
    }
    candidates.resize(frame.candidateBegin);
    frames.pop_back();
    if (frames.empty())
      return Outcome::Fits;
  }
}

ArenaSearch::Outcome ArenaSearch::fit(int64_t newCapacity, Effort &effort) {
  capacity = newCapacity;
  double nodeLimit = 1000 + 4.0 * numItems;
  for (unsigned run = 0;; ++run) {
    setOrder(makeOrder(run));
    Outcome outcome = runOnce(static_cast<uint64_t>(nodeLimit), effort);
    effort.spend(steps);
    steps = 0;
    if (outcome == Outcome::Fits) {
      found.offsets.assign(numItems, 0);
      found.height = 0;
      for (int32_t rank = 0; rank < numItems; ++rank) {
        found.offsets[rankToItem[rank]] = offsets[rank];
        found.height =
            std::max(found.height, offsets[rank] + items[rank].size);
      }
    }
    if (outcome != Outcome::Unknown || effort.exhausted())
      return outcome;
    nodeLimit *= 1.02;
  }
}
