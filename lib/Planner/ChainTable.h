//===- ChainTable.h - Fastest persistent schedules --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dynamic program computes the least time to reverse a segment (consecutive
// stages; see ChainView.h) with m slots of memory. It considers all
// memory-persistent schedules. They keep a stored a_i (the input of stage i) or
// abar_{i+1} (the values that stage i saves) until the backward pass uses it.
// In addition to the choices of Beaumont et al., a stage may save and drop its
// input. The input is later recomputed, which is cheap if the previous stage
// has to run once more anyway.
//
// The dynamic program skips computations that cannot improve its result:
//
//   - values of m, the number of slots, below the minimum of a segment;
//   - values of m above the smallest one with which every stage can save with
//     its fastest option;
//   - for each choice, blocks of consecutive values of m for which the choice
//     is not faster. This is the case if the time of the choice with the
//     largest m of the block is not below the best time so far with the
//     smallest m of the block.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINTABLE_H
#define KILN_LIB_PLANNER_CHAINTABLE_H

#include "ChainGrid.h"

namespace kiln::chain {

class Table {
public:
  Table(const View &view, const Grid &grid);

  /// Returns the least time of the schedules of a segment that need at most m
  /// slots of memory, or infinity if there is no such schedule.
  double time(const Segment &segment, int32_t m) const {
    return row(segment)[m];
  }
  double timeWithin(const Segment &segment, int64_t bytes) const {
    int32_t m = grid.within(bytes);
    return m < 0 ? std::numeric_limits<double>::infinity() : time(segment, m);
  }

  /// Returns an upper bound on the number of elementary steps, per slot of
  /// memory, that it takes to compute a table.
  static uint64_t effortPerSlot(const View &view);

private:
  /// With at least `least` slots of memory, a schedule of the segment exists.
  /// With at least `enough` slots, the fastest schedule fits.
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
  /// For each segment, the smallest number of slots with which a schedule
  /// exists, and the number with which the fastest schedule fits. Indexed by
  /// segment number.
  std::vector<Range> ranges;
  std::vector<double> rows;
};

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINTABLE_H
