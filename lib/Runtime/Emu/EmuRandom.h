//===- EmuRandom.h - Random scheduling of the emulated GPU ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A SplitMix64 generator. The order of blocks and warps depends only on the
// numbers of this generator. Therefore a seed determines a schedule.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_EMU_EMURANDOM_H
#define KILN_LIB_RUNTIME_EMU_EMURANDOM_H

#include "kiln/Support/Rng.h"

#include <utility>
#include <vector>

namespace kiln::runtime::emu {

class Random {
public:
  explicit Random(uint64_t seed) : state_(support::splitmix64(seed)) {}

  /// Returns a number in [0, limit). `limit` must be less than 2^32.
  uint64_t below(uint64_t limit) {
    uint64_t value = support::splitmix64(state_);
    state_ += 0x9E3779B97F4A7C15;
    return (value >> 32) * limit >> 32;
  }

  template <typename T> void shuffle(std::vector<T> &items) {
    for (uint64_t i = items.size(); i > 1; --i)
      std::swap(items[i - 1], items[below(i)]);
  }

private:
  uint64_t state_;
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_EMURANDOM_H
