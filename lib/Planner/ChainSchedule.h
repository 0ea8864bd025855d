//===- ChainSchedule.h - Reconstruction of a schedule from a table --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reconstructs a schedule, from its first operation to its last, from the table
// of the dynamic program. Memory is counted in bytes instead of slots, so the
// bytes that rounding to slots would lose in one step are available in the next
// step. If the table has no schedule for the available bytes although one
// exists, the schedule of least memory is used. There is therefore a schedule
// for every feasible budget. If the table was computed with sizes rounded up,
// the schedule is never slower than the time in the table.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINSCHEDULE_H
#define KILN_LIB_PLANNER_CHAINSCHEDULE_H

#include "ChainFloor.h"
#include "ChainTable.h"

namespace kiln::chain {

class Scheduler {
public:
  Scheduler(const View &view, const Table &table, const Floor &floor);
  /// Creates a scheduler without a table. All times count as 0, so it accepts
  /// any feasible schedule.
  Scheduler(const View &view, const Floor &floor)
      : view(view), table(nullptr), floor(floor) {}

  /// Returns the estimated time of a schedule of `segment` (consecutive stages)
  /// with at most `bytes` bytes of memory. Returns infinity if and only if
  /// there is no such schedule.
  double time(const Segment &segment, int64_t bytes) const;

  /// Appends a schedule of the segment that needs at most `bytes` bytes. Such a
  /// schedule must exist.
  void append(const Segment &segment, int64_t bytes,
              std::vector<ChainOp> &ops) const;

private:
  std::pair<Choice, double> choose(const Segment &segment, int64_t bytes) const;

  const View &view;
  const Table *table;
  const Floor &floor;
  /// Time of a schedule of least memory, indexed by segment number.
  std::vector<double> floorTimes;
};

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINSCHEDULE_H
