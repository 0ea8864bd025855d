//===- GemmRates.h - Rates of matrix products ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Times products over a grid of sizes as executables compute them: on the tiles
// that the compiler would choose, by the same calls and threads. A figure is
// the mean over the three products of a linear layer: plain, with the right
// operand transposed, with the left one transposed.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_MEASURE_GEMMRATES_H
#define KILN_LIB_RUNTIME_MEASURE_GEMMRATES_H

#include "../Engine/Gemm.h"
#include "Sampler.h"

namespace kiln::runtime {

class GemmRates {
public:
  GemmRates(ElementType type, ThreadTeam &team, Sampler &sampler);

  /// {"m": [...], "n": [...], "k": [...], "flop_per_s": [[[...]]]}, after the
  /// sampler has run. Noise is taken out that would give a larger product less
  /// time.
  std::string json() const;

private:
  void multiply(std::size_t kind, int64_t m, int64_t n, int64_t k);

  ElementType type_;
  ThreadTeam &team_;
  Sampler &sampler_;
  std::vector<char> a_, b_, c_;
  std::vector<std::size_t> subjects_; ///< [m][n][k][kind]
};

/// With so many digits as are worth writing; rounded down.
double roundedDown(double value);

/// The shortest text that reads back as the same number.
std::string numberText(double value);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_MEASURE_GEMMRATES_H
