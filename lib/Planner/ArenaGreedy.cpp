//===- ArenaGreedy.cpp - Greedy orders for arena offsets --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places items one by one. An item is placed into a gap between the placed
// items that conflict with it: into the smallest gap that is large enough (best
// fit), or into the lowest gap that is large enough (first fit). If no gap is
// large enough, the item is placed above all items that conflict with it.
// Several orders of the items are tried. For the nested lifetimes of a training
// step, one of these orders usually reaches the target. If none does, items
// that end above the target are moved forward in the order, and all items are
// placed again ("squeaky wheel" optimization).
//
//===----------------------------------------------------------------------===//

#include "ArenaProblem.h"

#include <limits>
#include <numeric>
#include <tuple>

using namespace kiln;
using namespace kiln::arena;

namespace {
enum class Fit { Best, First };

struct Rule {
  const char *name;
  Fit fit;
  /// Sort key. Items with a larger key come first; ties are in schedule order.
  double (*key)(const Item &item);
};

/// A placed item. Blocks are sorted by offset.
struct Block {
  int64_t offset, top;
  int32_t first, last;
};
} // namespace

static double bySize(const Item &item) {
  return static_cast<double>(item.size);
}
static double byDuration(const Item &item) {
  return static_cast<double>(item.duration);
}
static double byArea(const Item &item) {
  return bySize(item) * byDuration(item);
}
static double bySchedule(const Item &item) { return 0; }

static constexpr Rule kRules[] = {
    {"size, best fit", Fit::Best, bySize},
    {"schedule, best fit", Fit::Best, bySchedule},
    {"lifetime, best fit", Fit::Best, byDuration},
    {"area, best fit", Fit::Best, byArea},
    {"lifetime, first fit", Fit::First, byDuration},
    {"size, first fit", Fit::First, bySize},
    {"area, first fit", Fit::First, byArea},
};

/// Maximum number of squeaky-wheel rounds.
static constexpr int kRepairRounds = 200;

static Placement placeInOrder(const Problem &problem,
                              llvm::ArrayRef<int32_t> order, Fit fit,
                              Effort &effort) {
  Placement placement;
  placement.offsets.assign(problem.items.size(), 0);
  std::vector<Block> blocks;
  blocks.reserve(order.size());
  for (int32_t index : order) {
    const Item &item = problem.items[index];
    int64_t top = 0, offset = -1;
    int64_t smallestGap = std::numeric_limits<int64_t>::max();
    for (const Block &block : blocks) {
      if (block.first >= item.last || item.first >= block.last)
        continue;
      int64_t start = alignUp(top, item.alignment);
      int64_t gap = block.offset - start;
      if (gap >= item.size && gap < smallestGap) {
        offset = start;
        smallestGap = gap;
        if (fit == Fit::First)
          break;
      }
      top = std::max(top, block.top);
    }
    effort.spend(blocks.size() + 1);
    if (offset < 0)
      offset = alignUp(top, item.alignment);
    Block block = {offset, offset + item.size, item.first, item.last};
    blocks.insert(std::upper_bound(blocks.begin(), blocks.end(), offset,
                                   [](int64_t value, const Block &other) {
                                     return value < other.offset;
                                   }),
                  block);
    placement.offsets[index] = offset;
    placement.height = std::max(placement.height, block.top);
  }
  return placement;
}

/// Moves the items that end above `target` half way to the front. The moved
/// items keep their relative order.
static void moveOffendersForward(const Problem &problem,
                                 const Placement &placement, int64_t target,
                                 std::vector<int32_t> &order) {
  struct Entry {
    size_t key;
    /// True if the item did not move. Of items with equal `key`, those that
    /// moved come first.
    bool stays;
    size_t position;
    int32_t index;
    bool operator<(const Entry &other) const {
      return std::tie(key, stays, position) <
             std::tie(other.key, other.stays, other.position);
    }
  };
  std::vector<Entry> entries;
  for (size_t position = 0; position < order.size(); ++position) {
    int32_t index = order[position];
    bool stays = placement.offsets[index] + problem.items[index].size <= target;
    entries.push_back(
        {stays ? position : position / 2, stays, position, index});
  }
  std::sort(entries.begin(), entries.end());
  for (size_t position = 0; position < order.size(); ++position)
    order[position] = entries[position].index;
}

Placement arena::placeGreedily(const Problem &problem, int64_t target,
                               Effort &effort, std::string &method) {
  Placement best;
  std::vector<int32_t> bestOrder;
  Fit bestFit = Fit::Best;
  for (const Rule &rule : kRules) {
    std::vector<int32_t> order(problem.items.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      double keyA = rule.key(problem.items[a]);
      double keyB = rule.key(problem.items[b]);
      return keyA != keyB ? keyA > keyB : a < b;
    });
    Placement placement = placeInOrder(problem, order, rule.fit, effort);
    if (best.offsets.empty() || placement.height < best.height) {
      best = std::move(placement);
      bestOrder = std::move(order);
      bestFit = rule.fit;
      method = rule.name;
    }
    if (best.height <= target || effort.exhausted())
      return best;
  }

  Effort slice(effort.left() / 8);
  std::vector<int32_t> order = bestOrder;
  Placement current = best;
  for (int round = 0;
       round < kRepairRounds && best.height > target && !slice.exhausted();
       ++round) {
    moveOffendersForward(problem, current, target, order);
    current = placeInOrder(problem, order, bestFit, slice);
    if (current.height < best.height) {
      best = current;
      method = "squeaky wheel";
    }
  }
  effort.spend(slice.spent());
  return best;
}
