//===- ChainTable.h - Fastest persistent schedules --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dynamic program: the least time to reverse a segment with m slots of
// memory, over all memory-persistent schedules. What is stored, be it a_i or
// abar_{i+1}, stays until its backward use. Beyond Beaumont et al., a stage may
// save and drop its input (choice C), which is cheap to have again when the
// stage before it has to run once more anyway.
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
  enum class Rounding { Up, Nearest, Down } rounding = Rounding::Up;

  int32_t round(int64_t bytes) const {
    int64_t more = rounding == Rounding::Up        ? slot - 1
                   : rounding == Rounding::Nearest ? slot / 2
                                                   : 0;
    int64_t count = (bytes + more) / slot;
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
  double time(const Segment &segment, int32_t m) const {
    return row(segment)[m];
  }
  double timeWithin(const Segment &segment, int64_t bytes) const {
    int32_t m = grid.within(bytes);
    return m < 0 ? std::numeric_limits<double>::infinity() : time(segment, m);
  }

  /// Elementary steps per slot that a table takes.
  static uint64_t effortPerSlot(const View &view);

private:
  const double *row(const Segment &segment) const {
    return rows.data() + size_t(view.number(segment)) * (grid.slots + 1);
  }
  void fill(const Segment &segment, double *out) const;

  const View &view;
  Grid grid;
  std::vector<double> rows;
};

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINTABLE_H
