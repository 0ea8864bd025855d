//===- ArenaProblem.h - The reduced arena problem ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The greedy orders and the exact search work on one connected group of buffers
// with time reduced to *sections*. A section is a maximal set of buffers that
// are live together (a maximal clique of the interval graph). Two buffers
// conflict if and only if they share a section, and the sections of a buffer
// are consecutive, so the original time axis is not needed. Sizes are divided
// by the greatest common divisor of all sizes and alignments, the *unit*.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_ARENAPROBLEM_H
#define KILN_LIB_PLANNER_ARENAPROBLEM_H

#include "kiln/Planner/Arena.h"

#include <algorithm>

namespace kiln::arena {

inline int64_t alignUp(int64_t value, int64_t alignment) {
  return alignment == 1 ? value
                        : (value + alignment - 1) / alignment * alignment;
}

struct Item {
  int64_t size;      ///< Padded size, in the units that reduce() chooses.
  int64_t alignment; ///< Alignment in units.
  int32_t first;     ///< The item is live in sections [first, last).
  int32_t last;
  int64_t duration; ///< Lifetime in schedule positions.

  int32_t numSections() const { return last - first; }
  bool conflictsWith(const Item &other) const {
    return first < other.last && other.first < last;
  }
};

/// A connected component of the conflict graph of the buffers. Items are sorted
/// by their first section.
struct Problem {
  std::vector<Item> items;
  /// Index of the input buffer of each item.
  std::vector<int32_t> source;
  /// Total size of the items of each section (a set of buffers that are live
  /// together), in the units that reduce() chooses.
  std::vector<int64_t> load;

  int64_t maxLoad() const {
    return *std::max_element(load.begin(), load.end());
  }
};

/// Offsets of a problem's items, in units of the size that reduce() stores in
/// `unit`.
struct Placement {
  std::vector<int64_t> offsets;
  int64_t height = 0;
};

/// Splits the nonempty buffers into independent problems. Sets `unit` to the
/// number of bytes per unit of the sizes in the problems.
std::vector<Problem> reduce(llvm::ArrayRef<ArenaBuffer> buffers, int64_t &unit);

/// Counts steps against a limit.
class Effort {
public:
  explicit Effort(uint64_t limit) : limit(limit) {}
  void spend(uint64_t steps) { used += steps; }
  bool exhausted() const { return used >= limit; }
  uint64_t spent() const { return used; }
  uint64_t left() const { return exhausted() ? 0 : limit - used; }

private:
  uint64_t limit;
  uint64_t used = 0;
};

/// Places the items by several greedy orders and returns the lowest placement.
/// Stops at the first placement whose height is at most `target`. Stores the
/// name of the order in `method`. Also stops if `effort` is exhausted, but
/// always completes the first order, so that there is a placement.
Placement placeGreedily(const Problem &problem, int64_t target, Effort &effort,
                        std::string &method);

} // namespace kiln::arena

#endif // KILN_LIB_PLANNER_ARENAPROBLEM_H
