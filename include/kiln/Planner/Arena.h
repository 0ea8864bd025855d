//===- Arena.h - Offsets of buffers in one static arena ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every buffer of a scheduled program has a size and a half-open lifetime
// [lower, upper) in schedule positions. assignOffsets() gives each buffer a
// fixed byte offset such that buffers that are live at the same position never
// overlap, and minimizes the height of the arena.
//
//      height                      The load (peak live bytes) is a lower
//        |  +-----+  +--+          bound on the height. A plan whose height
//        |  |  b  |  |d |          equals the load is optimal. Minimizing the
//        |  +--+--+--+--+          height is NP-hard (dynamic storage
//        |  |a |    c   |          allocation), so greedy orders are tried
//        +--+--+--------+-> time   first, followed by an exact search.
//
// The result is a pure function of the buffers and the options: effort is
// measured in elementary steps of the search, not in seconds.
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

/// A buffer to place. It occupies `size` bytes, rounded up to `alignment`, at a
/// multiple of `alignment` during [lower, upper). A buffer of size 0 or with an
/// empty lifetime conflicts with no other buffer and is placed at offset 0.
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
  /// The search stops as soon as the height is at most `capacity`. If
  /// `capacity` is -1, the search minimizes the height.
  int64_t capacity = -1;
  /// Upper limit on the number of elementary steps of the search. A step takes
  /// about a nanosecond. With 0, only the first greedy order is tried.
  uint64_t effort = 300'000'000;
};

struct ArenaPlan {
  /// Offset of every buffer, in the order of the input.
  std::vector<int64_t> offsets;
  /// The largest end offset of any buffer, which is the size of the arena.
  int64_t height = 0;
  /// The load: the peak of the live bytes, including padding.
  int64_t maxLive = 0;
  /// Lower bound on the height: the load, or a higher bound that the search
  /// proved.
  int64_t lowerBound = 0;
  /// True if height == lowerBound.
  bool optimal = false;
  /// Number of decisions of the exact search.
  uint64_t nodes = 0;
  /// Number of elementary steps; ArenaOptions::effort limits this number.
  uint64_t steps = 0;
  /// Method that produced the plan, for reports: "size, best fit" or
  /// "search".
  std::string method;
};

/// Computes the offsets of the buffers. Requires size >= 0, alignment > 0 and
/// lower <= upper for every buffer, and a sum of padded sizes below 2^62.
ArenaPlan assignOffsets(llvm::ArrayRef<ArenaBuffer> buffers,
                        const ArenaOptions &options = {});

/// Verifies a plan independently of the planner's code: offsets are aligned and
/// within [0, height], buffers that are live at the same time do not overlap,
/// and maxLive is the peak of the live bytes. Returns a one-line description of
/// the first error, or std::nullopt.
std::optional<std::string> verifyArena(llvm::ArrayRef<ArenaBuffer> buffers,
                                       const ArenaPlan &plan);

} // namespace kiln

#endif // KILN_PLANNER_ARENA_H
