//===- ArenaProblem.h - The arena problem, reduced --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the greedy orders and the search work on: one connected group of buffers
// with time reduced to *sections*. A section is a maximal set of buffers that
// are alive together (a maximal clique of the interval graph). Two buffers
// conflict exactly when they share a section, and a buffer's sections are
// consecutive, so nothing else of the original time axis matters. Bytes are
// divided by the greatest common divisor of all sizes and alignments.
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
  int64_t size;      ///< padded, in units
  int64_t alignment; ///< in units
  int32_t first;     ///< sections [first, last)
  int32_t last;
  int64_t duration; ///< in original positions

  int32_t numSections() const { return last - first; }
  bool conflictsWith(const Item &other) const {
    return first < other.last && other.first < last;
  }
};

/// A group of buffers that no moment separates in time. Items are sorted by
/// their first section.
struct Problem {
  std::vector<Item> items;
  /// Which input buffer each item is.
  std::vector<int32_t> source;
  /// Bytes alive in each section, in units.
  std::vector<int64_t> load;

  int64_t maxLoad() const {
    return *std::max_element(load.begin(), load.end());
  }
};

/// Offsets of a problem's items, in units.
struct Placement {
  std::vector<int64_t> offsets;
  int64_t height = 0;
};

/// Splits `buffers` into independent problems; empty buffers are left out.
/// `unit` receives the number of bytes that one unit stands for.
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

/// Places the items by several greedy orders and returns the lowest result; the
/// first that is not above `target` ends it. `method` names the order. Steps
/// are counted, but only the improvement that follows the orders obeys the
/// limit, so there always is a placement.
Placement placeGreedily(const Problem &problem, int64_t target, Effort &effort,
                        std::string &method);

} // namespace kiln::arena

#endif // KILN_LIB_PLANNER_ARENAPROBLEM_H
