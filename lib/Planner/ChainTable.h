//===- ChainTable.h - Fastest persistent schedules --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dynamic program. time(i, l, m) is the least time to go from a_i and
// delta_{l+1} to delta_i with m slots of memory, where a_i is not counted and
// delta_{l+1} is, over all memory-persistent schedules. The first operation is
// one of
//
//   A(j)  run i..j-1 without saving, i < j <= l, and store a_j; then reverse
//         [j, l] in m - |a_j| slots, and then [i, j-1] in all m.
//         Every forward pass happens beside delta_{l+1}.
//   B(k)  run i, saving what option k saves; then reverse [i+1, l] in
//         m - |abar_{i+1}| slots, and then run the backward pass of i.
//
// m slots stand for m * slot + rest bytes. Sizes that are subtracted from m are
// rounded to whole slots: up in a plan, so that there are at least as many
// bytes as m says, and down in a bound, so that there are at most as many. What
// an operation needs is compared with m exactly. If all sizes are multiples of
// the slot, both agree.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINTABLE_H
#define KILN_LIB_PLANNER_CHAINTABLE_H

#include "ChainView.h"

namespace kiln::chain {

/// Memory as a number of slots.
struct Grid {
  int64_t slot = 1;
  int64_t rest = 0;
  int32_t slots = 0;
  bool roundUp = true;

  int32_t round(int64_t bytes) const {
    int64_t count = (bytes + (roundUp ? slot - 1 : 0)) / slot;
    return static_cast<int32_t>(std::min<int64_t>(count, slots + 1));
  }
  /// The fewest slots that hold these bytes.
  int32_t holding(int64_t bytes) const {
    int64_t count = bytes <= rest ? 0 : (bytes - rest + slot - 1) / slot;
    return static_cast<int32_t>(std::min<int64_t>(count, slots + 1));
  }
  /// The slots that these bytes hold; negative if they do not hold the rest.
  int32_t within(int64_t bytes) const {
    int64_t count = bytes < rest ? -1 : (bytes - rest) / slot;
    return static_cast<int32_t>(std::min<int64_t>(count, slots));
  }
};

class Table {
public:
  Table(const View &view, const Grid &grid);

  /// Infinite if there is no schedule.
  double time(int32_t i, int32_t l, int32_t m) const { return row(i, l)[m]; }
  double timeWithin(int32_t i, int32_t l, int64_t bytes) const {
    int32_t m = grid.within(bytes);
    return m < 0 ? std::numeric_limits<double>::infinity() : time(i, l, m);
  }
  double time() const { return time(0, view.size() - 1, grid.slots); }

  /// Elementary steps per slot that a table takes.
  static uint64_t effortPerSlot(const View &view);

private:
  const double *row(int32_t i, int32_t l) const {
    return rows.data() + size_t(view.segment(i, l)) * (grid.slots + 1);
  }
  void fill(int32_t i, int32_t l, double *out) const;

  const View &view;
  Grid grid;
  std::vector<double> rows;
};

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINTABLE_H
