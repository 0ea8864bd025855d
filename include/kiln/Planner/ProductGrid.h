//===- ProductGrid.h - How a matrix product is cut --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The grid of tiles of a product on a CPU: a function of its shape and the
// number of threads, because a tile's rounding depends on its shape. The
// compiler writes it into programs, and machines are measured with it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_PLANNER_PRODUCTGRID_H
#define KILN_PLANNER_PRODUCTGRID_H

#include <cstdint>
#include <utility>

namespace kiln {

/// Splits an m x n result over `threads` tiles so that the operands are packed
/// as few times as possible: gn tiles side by side each read all of a, gm tiles
/// below each other each read all of b. Of equal splits, one of rows suits
/// products with a transposed left operand. Returns (gm, gn).
inline std::pair<int64_t, int64_t> chooseProductGrid(int64_t m, int64_t n,
                                                     int64_t k, bool transA,
                                                     int64_t threads) {
  // Products below this many multiply-adds are not worth a second thread.
  constexpr int64_t serialProduct = 64 * 64 * 64;
  if (m * n * k <= serialProduct)
    return {1, 1};
  std::pair<int64_t, int64_t> best = {1, 1};
  int64_t bestCost = INT64_MAX;
  for (int64_t gm = 1; gm <= threads; ++gm) {
    if (threads % gm)
      continue;
    int64_t gn = threads / gm;
    // A tile is at least 16 rows and columns, or libraries take slow paths.
    if ((gm > 1 && m / gm < 16) || (gn > 1 && n / gn < 16))
      continue;
    int64_t cost = gn * m + gm * n;
    if (cost < bestCost || (cost == bestCost && transA)) {
      bestCost = cost;
      best = {gm, gn};
    }
  }
  return best;
}

} // namespace kiln

#endif // KILN_PLANNER_PRODUCTGRID_H
