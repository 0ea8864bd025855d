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
// Copies of states that arrive one after the other and leave in the same order
// overlap without being nested. For a program with many of them, the orders
// above leave gaps. The last orders that are tried therefore begin with the
// long-lived items, whose lifetimes are nested. The large items follow, and
// then all others in the order of time.
//
//===----------------------------------------------------------------------===//

#include "ArenaProblem.h"

#include <cstring>
#include <limits>
#include <numeric>
#include <tuple>
#include <utility>

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

/// A placed item.
struct Block {
  int64_t offset, top;
  int32_t first, last;
};

/// Placed items, sorted by offset. The lifetimes are stored apart from the
/// offsets, because forEachConflict() reads the lifetimes of all items of a
/// list, but the offsets of only a few are read.
struct BlockList {
  std::vector<int64_t> offsets, tops;
  std::vector<int32_t> firsts, lasts;

  size_t size() const { return offsets.size(); }
  void insert(size_t index, const Block &block);
  /// Calls `visit` with the index of each block that conflicts with the item,
  /// in order, until `visit` returns false.
  template <typename Visit>
  void forEachConflict(const Item &item, Visit visit) const;
};

/// The placed items ("blocks"), sorted by offset. Most items are short-lived
/// and conflict with few others. So besides the list of all blocks, there are
/// lists of the blocks in windows of time. There are long and short windows,
/// each kind in a Level. The windows of a level start at equal distances and
/// are twice as long as this distance. Every item that is not longer than the
/// distance is therefore inside a window.
class Blocks {
public:
  explicit Blocks(int32_t numSections);
  /// Returns a list that contains all blocks that conflict with an item.
  const BlockList &near(const Item &item) const;
  /// Inserts a block. Returns the effort that this takes, in steps.
  uint64_t insert(const Block &block);

private:
  struct Level {
    int32_t distance;
    std::vector<BlockList> windows;
  };
  std::vector<Level> levels; ///< The smallest distance first.
  BlockList all;
};
} // namespace

/// Besides the list of all placed items, Blocks has levels of lists, one list
/// for each window of time. kWindows is the approximate number of windows of
/// each level. A level whose windows would start less than kLeastDistance
/// sections apart is omitted.
static constexpr int32_t kWindows[] = {64, 8};
static constexpr int32_t kLeastDistance = 4;
/// The insertion of a block before n other blocks of a list counts as
/// kInsertionSteps + n / kBlocksMovedPerStep steps.
static constexpr uint64_t kInsertionSteps = 20;
static constexpr int64_t kBlocksMovedPerStep = 4;

void BlockList::insert(size_t index, const Block &block) {
  auto add = [&](auto &values, auto value) {
    values.insert(values.begin() + ptrdiff_t(index), value);
  };
  add(offsets, block.offset);
  add(tops, block.top);
  add(firsts, block.first);
  add(lasts, block.last);
}

template <typename Visit>
void BlockList::forEachConflict(const Item &item, Visit visit) const {
  // Compare whole chunks without branches, so that the compiler uses vectors.
  constexpr size_t chunk = 64, word = sizeof(uint64_t);
  uint8_t conflicts[chunk];
  for (size_t begin = 0; begin < size(); begin += chunk) {
    size_t count = std::min(chunk, size() - begin);
    const int32_t *first = firsts.data() + begin, *last = lasts.data() + begin;
    for (size_t i = 0; i < count; ++i)
      conflicts[i] = uint8_t(first[i] < item.last) & (item.first < last[i]);
    for (size_t i = 0; i < count; ++i) {
      uint64_t next = 0;
      if (i % word == 0 && i + word <= count) {
        std::memcpy(&next, conflicts + i, word);
        if (next == 0) {
          i += word - 1;
          continue;
        }
      }
      if (conflicts[i] && !visit(begin + i))
        return;
    }
  }
}

Blocks::Blocks(int32_t numSections) {
  for (int32_t count : kWindows) {
    int32_t distance = numSections / count;
    if (distance >= kLeastDistance)
      levels.push_back(
          {distance, std::vector<BlockList>(numSections / distance + 1)});
  }
}

const BlockList &Blocks::near(const Item &item) const {
  for (const Level &level : levels)
    if (item.numSections() <= level.distance)
      return level.windows[item.first / level.distance];
  return all;
}

uint64_t Blocks::insert(const Block &block) {
  uint64_t steps = 0;
  auto add = [&](BlockList &blocks) {
    auto above = std::upper_bound(blocks.offsets.begin(), blocks.offsets.end(),
                                  block.offset);
    steps +=
        kInsertionSteps + (blocks.offsets.end() - above) / kBlocksMovedPerStep;
    blocks.insert(size_t(above - blocks.offsets.begin()), block);
  };
  add(all);
  for (Level &level : levels) {
    // Window w contains the sections in [w * distance, (w + 2) * distance).
    int32_t from = std::max(block.first / level.distance - 1, 0);
    int32_t to = (block.last - 1) / level.distance;
    for (int32_t w = from; w <= to; ++w)
      add(level.windows[w]);
  }
  return steps;
}

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

/// Maximum number of squeaky-wheel rounds. In each round, the items that end
/// above the target move to earlier positions in the order, and all items are
/// placed again.
static constexpr int kRepairRounds = 200;

/// An item is long-lived if its duration exceeds this fraction of the longest
/// duration of an item; each of the fractions is tried. An item is large if its
/// size exceeds the peak load divided by kLargePart.
static constexpr double kLongLived[] = {0.3, 0.5, 0.1, 0.2};
static constexpr int64_t kLargePart = 20;
/// The number of orders from orderInTime() that are improved by squeaky-wheel
/// rounds, and the number of rounds for each of them.
static constexpr size_t kTimeOrders = 2;
static constexpr int kTimeOrderRounds = 16;

/// Places items in the given order. Stops once the height is at least `limit`.
static Placement
placeInOrder(const Problem &problem, llvm::ArrayRef<int32_t> order, Fit fit,
             Effort &effort,
             int64_t limit = std::numeric_limits<int64_t>::max()) {
  Placement placement;
  placement.offsets.assign(problem.items.size(), 0);
  Blocks blocks(static_cast<int32_t>(problem.load.size()));
  for (int32_t index : order) {
    const Item &item = problem.items[index];
    int64_t top = 0, offset = -1;
    int64_t smallestGap = std::numeric_limits<int64_t>::max();
    const BlockList &near = blocks.near(item);
    near.forEachConflict(item, [&](size_t i) {
      int64_t start = alignUp(top, item.alignment);
      int64_t gap = near.offsets[i] - start;
      if (gap >= item.size && gap < smallestGap) {
        offset = start;
        smallestGap = gap;
        if (fit == Fit::First)
          return false;
      }
      top = std::max(top, near.tops[i]);
      return true;
    });
    effort.spend(near.size() + 1);
    if (offset < 0)
      offset = alignUp(top, item.alignment);
    Block block = {offset, offset + item.size, item.first, item.last};
    effort.spend(blocks.insert(block));
    placement.offsets[index] = offset;
    placement.height = std::max(placement.height, block.top);
    if (placement.height >= limit)
      break;
  }
  return placement;
}

/// Halves the position in `order` of every item that ends above `target`. The
/// moved items keep their relative order.
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

/// Returns the order that places long-lived items first, then large items, and
/// then all others. `largeFirst` exchanges the first two classes. Large items
/// are sorted by decreasing size. Long-lived items are sorted by the start of
/// their lifetimes or, if `longByEnd` is true, by the end, latest first;
/// `othersByEnd` has the same effect on the last class.
static std::vector<int32_t> orderInTime(const Problem &problem, double part,
                                        bool largeFirst, bool longByEnd,
                                        bool othersByEnd) {
  int64_t total = 0, large = problem.maxLoad() / kLargePart;
  for (const Item &item : problem.items)
    total = std::max(total, item.duration);
  auto key = [&](int32_t index) {
    const Item &item = problem.items[index];
    auto byTime = [&](bool byEnd) -> int64_t {
      return byEnd ? -item.last : item.first;
    };
    bool isLarge = item.size > large;
    bool isLong = double(item.duration) > part * double(total);
    if (isLarge && (largeFirst || !isLong))
      return std::tuple(largeFirst ? 0 : 1, -item.size, index);
    return isLong ? std::tuple(largeFirst ? 1 : 0, byTime(longByEnd), index)
                  : std::tuple(2, byTime(othersByEnd), index);
  };
  std::vector<std::tuple<int, int64_t, int32_t>> keys;
  for (size_t i = 0; i < problem.items.size(); ++i)
    keys.push_back(key(static_cast<int32_t>(i)));
  std::sort(keys.begin(), keys.end());
  std::vector<int32_t> order;
  for (const auto &[cls, time, index] : keys)
    order.push_back(index);
  return order;
}

namespace {
/// An order of the items, and the placement that results from it.
struct Trial {
  std::vector<int32_t> order;
  Fit fit;
  Placement placement;
};
} // namespace

/// Improves a placement by squeaky-wheel optimization: each round places the
/// items that ended too high earlier than in the previous round. If the best
/// placement of all rounds is better than `best`, stores it in `best` and
/// returns true.
static bool repair(const Problem &problem, Trial trial, int64_t target,
                   int rounds, Effort &effort, Placement &best) {
  bool isBetter = false;
  for (int round = 0;
       round < rounds && best.height > target && !effort.exhausted(); ++round) {
    moveOffendersForward(problem, trial.placement, target, trial.order);
    trial.placement = placeInOrder(problem, trial.order, trial.fit, effort);
    if (trial.placement.height < best.height) {
      best = trial.placement;
      isBetter = true;
    }
  }
  return isBetter;
}

/// Tries the orders from orderInTime(), and improves the best of them by
/// squeaky-wheel optimization, see repair().
static bool placeInTime(const Problem &problem, int64_t target, Effort &effort,
                        Placement &best) {
  std::vector<Trial> trials; // The lowest placements so far, lowest first.
  auto isDone = [&] {
    return effort.exhausted() ||
           (!trials.empty() && trials.front().placement.height <= target);
  };
  for (double part : kLongLived)
    for (int code = 0; code < 16 && !isDone(); ++code) {
      Trial trial;
      trial.order = orderInTime(problem, part, code & 1, code & 2, code & 4);
      trial.fit = code & 8 ? Fit::First : Fit::Best;
      int64_t limit = trials.size() < kTimeOrders
                          ? std::numeric_limits<int64_t>::max()
                          : trials.back().placement.height;
      trial.placement =
          placeInOrder(problem, trial.order, trial.fit, effort, limit);
      if (trial.placement.height >= limit)
        continue;
      if (trials.size() == kTimeOrders)
        trials.pop_back();
      auto above =
          std::find_if(trials.begin(), trials.end(), [&](const Trial &other) {
            return other.placement.height > trial.placement.height;
          });
      trials.insert(above, std::move(trial));
    }
  if (trials.empty()) // There was no effort for a single order.
    return false;
  bool isBetter = trials.front().placement.height < best.height;
  if (isBetter)
    best = trials.front().placement;
  for (Trial &trial : trials)
    isBetter |= repair(problem, std::move(trial), target, kTimeOrderRounds,
                       effort, best);
  return isBetter;
}

Placement arena::placeGreedily(const Problem &problem, int64_t target,
                               Effort &effort, std::string &method) {
  Placement best;
  Trial bestTrial;
  for (const Rule &rule : kRules) {
    std::vector<int32_t> order(problem.items.size());
    std::iota(order.begin(), order.end(), 0);
    std::sort(order.begin(), order.end(), [&](int32_t a, int32_t b) {
      double keyA = rule.key(problem.items[a]);
      double keyB = rule.key(problem.items[b]);
      return keyA != keyB ? keyA > keyB : a < b;
    });
    int64_t limit = best.offsets.empty() ? std::numeric_limits<int64_t>::max()
                                         : best.height;
    Placement placement = placeInOrder(problem, order, rule.fit, effort, limit);
    if (placement.height < limit) {
      best = placement;
      bestTrial = {std::move(order), rule.fit, std::move(placement)};
      method = rule.name;
    }
    if (best.height <= target || effort.exhausted())
      return best;
  }

  Effort slice(effort.left() / 8);
  if (repair(problem, std::move(bestTrial), target, kRepairRounds, slice, best))
    method = "squeaky wheel";
  effort.spend(slice.spent());
  if (best.height > target && !effort.exhausted()) {
    Effort half(effort.left() / 2);
    if (placeInTime(problem, target, half, best))
      method = "time, long-lived first";
    effort.spend(half.spent());
  }
  return best;
}
