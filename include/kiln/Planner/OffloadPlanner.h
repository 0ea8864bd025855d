//===- OffloadPlanner.h - What leaves the device, and when ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program is a row of commands, each with a duration and with the bytes alive
// while it runs. Some of these bytes are values that nobody reads for a while:
// they can be copied to the host when they are made and back before their next
// reader. The link does one copy after the other in each direction, beside the
// commands.
//
// A value is gone from the device from the wait for its copy out to the
// beginning of its copy in. Both are placed so that nothing waits, if memory
// allows: the wait when the link will be done, the beginning as late as the
// link can make it. Where memory is short, the commands wait for the link
// instead. The copies back mirror the copies out in time, and one algorithm
// places both.
//
// Which values go is chosen greedily: for the first command with too much
// alive, the value that was made first, because it has the longest time; then
// every value that is not needed stays. If commands wait for the link, sets that
// differ by one value are tried.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_PLANNER_OFFLOADPLANNER_H
#define KILN_PLANNER_OFFLOADPLANNER_H

#include <cstdint>
#include <vector>

namespace kiln {

/// A value that may go to the host. Positions are those of commands.
struct OffloadItem {
  int64_t bytes = 0; ///< as they count in `live`
  int32_t made = 0;  ///< by this command
  int32_t left = 0;  ///< last reader before the gap, or `made`
  int32_t back = 0;  ///< first reader behind it
};

struct OffloadProblem {
  std::vector<double> seconds; ///< of every command
  std::vector<int64_t> live;   ///< bytes alive at every command
  std::vector<OffloadItem> items;
  /// Seconds per byte of a copy to the host and of one back.
  double outSecondsPerByte = 0, inSecondsPerByte = 0;
  int64_t capacity = 0; ///< bytes that may be alive
  int64_t hostCapacity = INT64_MAX;
};

/// A value that goes: its copy out is complete before command `wait` and its
/// copy back begins before command `begin`; left < wait <= begin <= back.
struct OffloadedItem {
  int32_t item = 0;
  int32_t wait = 0;
  int32_t begin = 0;
};

struct OffloadSolution {
  std::vector<OffloadedItem> offloaded; ///< by item
  /// Estimated duration, waits for the link included.
  double seconds = 0;
  /// Bytes alive beyond the capacity at the worst command; 0 if all fits.
  int64_t excess = 0;

  bool fits() const { return excess == 0; }
};

/// Chooses what goes. A pure function of the problem.
OffloadSolution planOffload(const OffloadProblem &problem);

/// Places the copies of given items (ascending).
OffloadSolution placeOffload(const OffloadProblem &problem,
                             const std::vector<int32_t> &items);

} // namespace kiln

#endif // KILN_PLANNER_OFFLOADPLANNER_H
