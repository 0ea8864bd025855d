//===- LinkPlacer.h - Placement of copies in one direction ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Places the copies of one direction of the link in a sequence of commands. If
// memory allows, no command waits for a copy: a value leaves the device when
// its copy is complete. If memory is short, commands wait for the oldest
// copies. Copies to the device are placed in reversed time, in which they are
// copies to the host.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_LINKPLACER_H
#define KILN_LIB_PLANNER_LINKPLACER_H

#include <cstddef>
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

/// One direction of a link, and the memory of the device.
struct LinkLimits {
  double secondsPerByte = 0;
  int64_t capacity = 0; ///< Maximum of the live bytes on the device.
  double latency = 0;   ///< Additional time of every copy, in seconds.
};

/// Schedules the copies in one direction of the link. The result for a copy is
/// Transfer::gone, the first command without the value.
class LinkPlacer {
public:
  /// Places the transfers, which must be ordered by `ready`. `seconds` has the
  /// duration of each command. `resident[c]` is the number of live bytes at
  /// command c if all values stay on the device. Returns the seconds spent
  /// waiting for the link.
  double run(const std::vector<double> &seconds, const LinkLimits &link,
             const std::vector<int64_t> &resident,
             std::vector<Transfer> &transfers);

private:
  struct Pending {
    Transfer *transfer;
    double done; ///< The time at which the copy is complete.
  };
  void remove(size_t index);

  // Scratch.
  /// The copies in progress, in the order of their starts, from index `first`.
  std::vector<Pending> pending;
  size_t first = 0;
  /// Element c is added, at command c, to the number of bytes that copies have
  /// freed on the device. It is negative if values must be on the device again
  /// at this command (see Transfer::limit), and 0 otherwise.
  std::vector<int64_t> freed;
};

} // namespace kiln

#endif // KILN_LIB_PLANNER_LINKPLACER_H
