//===- GemmGrid.h - The tile grid of a GEMM ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses the tile grid of a GEMM on a CPU from the GEMM's shape and the number
// of threads. The rounding of a result element depends on the shape of the tile
// that contains the element. To make results reproducible, the compiler
// therefore writes the grid into programs. kiln-measure times GEMMs with the
// grids that this file chooses.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_GEMMGRID_H
#define KILN_ABI_GEMMGRID_H

#include <cstdint>
#include <utility>

namespace kiln::abi {

/// Splits the m x n result of the matmul of `a` (m x k) and `b` (k x n) into
/// `threads` tiles, or into one tile if the result is small. Returns the grid
/// of gm x gn tiles for which BLAS packs (copies before it multiplies) the
/// fewest operand elements. For each tile, BLAS packs the tile's rows of `a`
/// and the tile's columns of `b`. Each element of `a` is thus packed gn times,
/// and each element of `b` gm times: k (gn m + gm n) elements in total. Among
/// grids with the same number of packed elements, chooses the grid with the
/// largest gm if `transA` is set, and with the smallest gm otherwise.
inline std::pair<int64_t, int64_t>
chooseGemmGrid(int64_t m, int64_t n, int64_t k, bool transA, int64_t threads) {
  // A GEMM with at most this number of multiply-adds runs on one thread.
  constexpr int64_t serialGemm = 64 * 64 * 64;
  if (m * n * k <= serialGemm)
    return {1, 1};
  std::pair<int64_t, int64_t> best = {1, 1};
  int64_t bestCost = INT64_MAX;
  for (int64_t gm = 1; gm <= threads; ++gm) {
    if (threads % gm)
      continue;
    int64_t gn = threads / gm;
    // Skip grids that split m or n into tiles of fewer than 16 rows or columns,
    // because BLAS is slow on such tiles.
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

} // namespace kiln::abi

#endif // KILN_ABI_GEMMGRID_H
