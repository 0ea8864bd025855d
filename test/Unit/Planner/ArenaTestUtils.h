//===- ArenaTestUtils.h - Random arenas and an exact oracle -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Generates random arena problems, and finds the optimum of small ones by
// exhaustive search.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_PLANNER_ARENATESTUTILS_H
#define KILN_TEST_UNIT_PLANNER_ARENATESTUTILS_H

#include "kiln/Planner/Arena.h"

#include <algorithm>
#include <limits>
#include <numeric>
#include <random>
#include <vector>

namespace kiln {

using Buffers = std::vector<ArenaBuffer>;

inline int64_t roundUp(int64_t value, int64_t alignment) {
  return (value + alignment - 1) / alignment * alignment;
}

/// Tries every order of the buffers and returns the lowest height. Each buffer
/// is placed directly above the earlier buffers of the order whose lifetimes
/// overlap with its lifetime. One of the orders sorts the buffers by their
/// offsets in an optimal plan, so the result is the optimum.
inline int64_t bruteForceHeight(const Buffers &buffers) {
  std::vector<size_t> order(buffers.size());
  std::iota(order.begin(), order.end(), 0);
  int64_t best = std::numeric_limits<int64_t>::max();
  std::vector<int64_t> tops(buffers.size());
  do {
    int64_t height = 0;
    for (size_t i = 0; i < order.size(); ++i) {
      const ArenaBuffer &self = buffers[order[i]];
      int64_t offset = 0;
      for (size_t j = 0; j < i; ++j) {
        const ArenaBuffer &below = buffers[order[j]];
        if (below.lower < self.upper && self.lower < below.upper)
          offset = std::max(offset, tops[order[j]]);
      }
      tops[order[i]] =
          roundUp(offset, self.alignment) + roundUp(self.size, self.alignment);
      height = std::max(height, tops[order[i]]);
    }
    best = std::min(best, height);
  } while (std::next_permutation(order.begin(), order.end()));
  return best;
}

inline Buffers randomBuffers(std::mt19937 &random, int count, int maxSize,
                             int positions, bool mixAlignments) {
  auto below = [&](int bound) { return static_cast<int>(random() % bound); };
  Buffers buffers;
  for (int i = 0; i < count; ++i) {
    ArenaBuffer buffer;
    buffer.size = 1 + below(maxSize);
    buffer.alignment = mixAlignments ? int64_t(1) << below(4) : 1;
    buffer.lower = below(positions);
    buffer.upper = buffer.lower + 1 + below(positions - buffer.lower);
    buffers.push_back(buffer);
  }
  return buffers;
}

} // namespace kiln

#endif // KILN_TEST_UNIT_PLANNER_ARENATESTUTILS_H
