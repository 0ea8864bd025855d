//===- LinkPlacer.h - Placement of copies in one direction ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places the copies of one direction of the link in a sequence of commands. If
// memory allows, no command waits for a copy: a value leaves when its copy is
// complete. If memory is short, commands wait for the oldest copies. Copies to
// the device are placed in reversed time, in which they are copies to the host.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_LINKPLACER_H
#define KILN_LIB_PLANNER_LINKPLACER_H

#include <cstdint>
#include <vector>

namespace kiln {

/// A copy to be placed in time. Commands are numbered in the direction of
/// placement: in program order for copies to the host, and in reverse order for
/// copies to the device.
struct Transfer {
  int64_t bytes = 0;
  int32_t ready = 0; ///< Command after which the copy can start.
  int32_t busy = 0;  ///< Last command before `limit` that needs the value, or
                     ///< `ready` if there is none.
  int32_t limit = 0; ///< First command after `busy` that needs the value.
  /// Result: first command without the value, or `limit` if the value stays on
  /// the device.
  int32_t gone = 0;
};

/// Places the transfers of one direction. `resident[c]` is the number of live
/// bytes at command c if all values stay on the device.
class LinkPlacer {
public:
  /// `latency` is the additional time of every copy, in seconds.
  LinkPlacer(const std::vector<double> &seconds, double secondsPerByte,
             int64_t capacity, double latency = 0)
      : seconds(seconds), secondsPerByte(secondsPerByte), latency(latency),
        capacity(capacity) {}

  /// Places the transfers, which must be ordered by `ready`. Returns the
  /// seconds spent waiting for the link.
  double run(std::vector<int64_t> resident, std::vector<Transfer> &transfers);

private:
  const std::vector<double> &seconds;
  double secondsPerByte, latency;
  int64_t capacity;
};

} // namespace kiln

#endif // KILN_LIB_PLANNER_LINKPLACER_H
