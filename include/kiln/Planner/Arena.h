//===- Arena.h - Offsets of buffers in one static arena ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every buffer of a scheduled program has a size and a half-open lifetime
// [lower, upper) in schedule positions. assignOffsets gives each one a fixed
// byte offset, so that buffers alive at the same position never share bytes,
// and makes the arena as low as it can.
//
//      height                      The load (bytes alive at once, at worst) is
//        |  +-----+  +--+          a lower bound on the height. A plan that
//        |  |  b  |  |d |          reaches it wastes nothing. Reaching it is
//        |  +--+--+--+--+          NP-hard in general (dynamic storage
//        |  |a |    c   |          allocation), so greedy orders come first and
//        +--+--+--------+-> time   an exact search is spent on the rest.
//
// The result is a pure function of the buffers and the options: effort is
// counted in elementary steps of the search, never in seconds.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_PLANNER_ARENA_H
#define KILN_PLANNER_ARENA_H

#include "llvm/ADT/ArrayRef.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// A buffer to place. It occupies `size` rounded up to `alignment` bytes, at a
/// multiple of `alignment`, during [lower, upper). A buffer without bytes or
/// without lifetime conflicts with nothing and is placed at 0.
struct ArenaBuffer {
  int64_t size = 0;
  int64_t alignment = 1;
  int32_t lower = 0;
  int32_t upper = 0;

  bool isEmpty() const { return size == 0 || lower == upper; }
  int64_t paddedSize() const {
    return (size + alignment - 1) / alignment * alignment;
  }
};

struct ArenaOptions {
  /// Any height up to this is good enough; -1 asks for the lowest.
  int64_t capacity = -1;
  /// Upper limit on elementary steps (a buffer or a section looked at); of the
  /// order of a nanosecond each. 0 leaves only the greedy orders.
  uint64_t effort = 300'000'000;
};

struct ArenaPlan {
  /// One per buffer, in the order of the input.
  std::vector<int64_t> offsets;
  /// The end of the highest buffer: the size of the arena.
  int64_t height = 0;
  /// The load: the most bytes alive at one position, padding included.
  int64_t maxLive = 0;
  /// No plan is lower than this: the load, or more where the search proved it.
  int64_t lowerBound = 0;
  /// height == lowerBound.
  bool optimal = false;
  /// Decisions the exact search took, and steps spent in all.
  uint64_t nodes = 0;
  uint64_t steps = 0;
  /// What produced the plan, for reports: "size best-fit", "search", ...
  std::string method;
};

/// Requires size >= 0, alignment > 0 and lower <= upper for every buffer, and a
/// sum of padded sizes below 2^62.
ArenaPlan assignOffsets(llvm::ArrayRef<ArenaBuffer> buffers,
                        const ArenaOptions &options = {});

/// Checks a plan from first principles, sharing no code with the planner:
/// offsets are aligned and inside [0, height], no two buffers that are alive
/// together overlap, and maxLive is the load. Returns what is wrong, if
/// anything, as one line.
std::optional<std::string> verifyArena(llvm::ArrayRef<ArenaBuffer> buffers,
                                       const ArenaPlan &plan);

} // namespace kiln

#endif // KILN_PLANNER_ARENA_H
