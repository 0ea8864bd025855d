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
// Steps that change nothing are left out: below the least slots of a segment,
// above those with which every stage saves its fastest option, and over blocks
// of slots where even the most of them make a choice no faster than what the
// least of them do already.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINTABLE_H
#define KILN_LIB_PLANNER_CHAINTABLE_H

#include "ChainGrid.h"

namespace kiln::chain {

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

  /// Elementary steps per slot that a table takes at most.
  static uint64_t effortPerSlot(const View &view);

private:
  /// The fewest slots with a schedule, and with the fastest one.
  struct Range {
    int32_t least = 0;
    int32_t enough = 0;
  };
  Range findRange(const Segment &segment) const;
  int32_t leastOf(const Choice &choice) const;
  void fill(const Segment &segment, double *out);
  const double *row(const Segment &segment) const {
    return rows.data() + size_t(view.number(segment)) * (grid.slots + 1);
  }

  const View &view;
  Grid grid;
  /// By number of segment.
  std::vector<Range> ranges;
  std::vector<double> rows;
};

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINTABLE_H
