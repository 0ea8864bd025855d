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
