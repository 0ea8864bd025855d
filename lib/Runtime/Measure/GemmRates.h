//===- GemmRates.h - GEMM performance measurements --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measures the times of GEMMs for a grid of sizes m, n and k, with the tiles,
// kernels and threads that an executable uses. Each time is the mean of the
// times of three GEMMs: one transposes no operand, one the right operand, and
// one the left operand. These are the three GEMMs of a linear layer and its
// gradients.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_MEASURE_GEMMRATES_H
#define KILN_LIB_RUNTIME_MEASURE_GEMMRATES_H

#include "../Engine/ThreadTeam.h"
#include "Sampler.h"
#include "kiln/Support/ElementType.h"

namespace kiln::runtime {

class GemmRates {
public:
  GemmRates(ElementType type, ThreadTeam &team, Sampler &sampler);

  /// Returns {"m": [...], "n": [...], "k": [...], "flop_per_s": [[[...]]]}.
  /// Must be called after Sampler::run(). Smooths measurement noise, so that a
  /// larger GEMM never takes less time than a smaller GEMM.
  std::string json() const;

private:
  void multiply(std::size_t kind, int64_t m, int64_t n, int64_t k);

  ElementType type_;
  ThreadTeam &team_;
  Sampler &sampler_;
  std::vector<char> a_, b_, c_, scratch_;
  std::vector<std::size_t> subjects_; ///< [m][n][k][kind]
};

/// Rounds down to four significant digits.
double roundedDown(double value);

/// Returns the shortest text that converts back to `value`.
std::string numberText(double value);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_MEASURE_GEMMRATES_H
