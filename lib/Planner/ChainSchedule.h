//===- ChainSchedule.h - From a table to a schedule -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rebuilds the schedule behind a table from the front, in bytes: what rounding
// lost in one step is found again in the next. Where the table knows no
// schedule for the bytes at hand, but there is one, the one of least memory is
// taken. So there is a schedule for every budget down to the floor, whatever
// the table's rounding; if sizes were rounded up, it is never slower than the
// table says.
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
  /// Without a table any schedule will do: none takes any time.
  Scheduler(const View &view, const Floor &floor)
      : view(view), table(nullptr), floor(floor) {}

  /// Estimated time of a schedule of the segment in these bytes; infinite if
  /// and only if there is none.
  double time(const Segment &segment, int64_t bytes) const;

  /// Appends a schedule of the segment in these bytes, which suffice.
  void append(const Segment &segment, int64_t bytes,
              std::vector<ChainOp> &ops) const;

private:
  std::pair<Choice, double> choose(const Segment &segment, int64_t bytes) const;

  const View &view;
  const Table *table;
  const Floor &floor;
  /// By number of segment: the time of a schedule of least memory.
  std::vector<double> floorTimes;
};

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINSCHEDULE_H
