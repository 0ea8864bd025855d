//===- GemmGrid.h - The tile grid of a GEMM ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tile grid of a GEMM on a CPU is a function of the GEMM's shape and the
// number of threads. The rounding of a tile depends on the tile's shape, so a
// fixed grid is needed for reproducible results. The compiler writes the grid
// into programs, and kiln-measure uses it to time GEMMs.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_GEMMGRID_H
#define KILN_ABI_GEMMGRID_H

#include <cstdint>
#include <utility>

namespace kiln::abi {

/// Splits an m x n result into `threads` tiles and returns the grid (gm, gn)
/// for which BLAS packs the fewest operand elements. Every tile packs its own
/// copy of its rows of a and of its columns of b, so that BLAS packs a gn times
/// and b gm times: k (gn m + gm n) elements. If two grids cost the same,
/// chooses the one with more rows if the left operand is transposed, and the
/// one with fewer rows otherwise.
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
    // BLAS is slow on tiles of fewer than 16 rows or columns.
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
