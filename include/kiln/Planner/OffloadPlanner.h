//===- OffloadPlanner.h - Selection and timing of offloads ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program is a sequence of commands, each with a duration and a number of
// live bytes. Some of these bytes belong to values with a long gap between two
// uses. Such a value can be copied to the host before the gap, and back to the
// device before its next use. The link executes one copy at a time in each
// direction, concurrently with the commands.
//
// An offloaded value occupies no device memory between the wait for its copy to
// the host and the start of its copy back. If memory allows, no command waits
// for the link: each wait is placed after the copy has completed, and each copy
// back starts as late as the link allows. If memory is short, commands wait for
// the link. Copies to the device are placed by the same algorithm as copies to
// the host, with time reversed.
//
// Values are chosen greedily. At each command whose live bytes exceed the
// capacity, in program order, the planner adds values whose gap contains the
// command until the live bytes fit. It adds these values in the order in which
// they are computed, because a value that is computed early has the most time
// for its copy to the host. Afterwards the planner removes values that need not
// be offloaded. If commands still wait for the link, the planner tries sets
// that differ from the best set so far by one added, removed or exchanged
// value.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_PLANNER_OFFLOADPLANNER_H
#define KILN_PLANNER_OFFLOADPLANNER_H

#include <cstdint>
#include <vector>

namespace kiln {

/// A value that may be offloaded during its gap, a range of commands that do
/// not use the value. Positions are indices of commands.
struct OffloadItem {
  int64_t bytes = 0; ///< Bytes that the value adds to OffloadProblem::live.
  int32_t made = 0;  ///< Command that computes the value.
  int32_t left = 0;  ///< Last reader before the gap; `made` if there is none.
  int32_t back = 0;  ///< First reader after the gap.
};

struct OffloadProblem {
  std::vector<double> seconds; ///< Duration of every command.
  /// Live bytes at every command if nothing is offloaded.
  std::vector<int64_t> live;
  std::vector<OffloadItem> items;
  /// Seconds per byte of a copy to the host and of a copy to the device.
  double outSecondsPerByte = 0, inSecondsPerByte = 0;
  int64_t capacity = 0; ///< Limit on the live bytes.
  int64_t hostCapacity = INT64_MAX;
};

/// A value that is offloaded. The program waits for its copy to the host before
/// command `wait`, and starts its copy to the device before command `begin`.
/// The order is OffloadItem::left < wait <= begin <= OffloadItem::back.
struct OffloadedItem {
  int32_t item = 0;
  int32_t wait = 0;
  int32_t begin = 0;
};

struct OffloadSolution {
  std::vector<OffloadedItem> offloaded; ///< Sorted by item.
  /// Estimated duration, including waits for the link.
  double seconds = 0;
  /// Bytes by which the peak of the live bytes exceeds the capacity; 0 if it
  /// does not.
  int64_t excess = 0;

  bool fits() const { return excess == 0; }
};

/// Chooses the values to offload. The result is a pure function of the problem.
OffloadSolution planOffload(const OffloadProblem &problem);

/// Places the copies of the items with the given indices, which must be in
/// ascending order.
OffloadSolution placeOffload(const OffloadProblem &problem,
                             const std::vector<int32_t> &items);

} // namespace kiln

#endif // KILN_PLANNER_OFFLOADPLANNER_H
