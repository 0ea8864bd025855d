//===- ChainGrid.cpp - Discretization of memory into slots ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainGrid.h"

#include <numeric>

using namespace kiln;
using namespace kiln::chain;

int64_t kiln::chain::exactSlot(const View &view) {
  int64_t slot = 0;
  for (int32_t i = 0; i < view.size(); ++i) {
    if (i > 0)
      slot = std::gcd(slot, view.value[i]);
    for (const Option &option : view.options[i])
      slot = std::gcd(slot, option.saved);
  }
  return std::max<int64_t>(slot, 1);
}

/// Returns the sum of the rounding errors, in bytes, if all sizes are rounded
/// to multiples of `slot`.
static int64_t roundingError(const View &view, int64_t slot,
                             Grid::Rounding rounding) {
  auto error = [&](int64_t bytes) {
    int64_t below = bytes % slot, above = below == 0 ? 0 : slot - below;
    return rounding == Grid::Rounding::Up     ? above
           : rounding == Grid::Rounding::Down ? below
                                              : std::min(above, below);
  };
  int64_t sum = 0;
  for (int32_t i = 0; i < view.size(); ++i) {
    sum += error(view.value[i]);
    for (const Option &option : view.options[i])
      sum += error(option.saved);
  }
  return sum;
}

Grid kiln::chain::makeGrid(const View &view, int64_t bytes, int64_t slots,
                           Grid::Rounding rounding) {
  Grid grid;
  grid.rounding = rounding;
  grid.slot = exactSlot(view);
  if (bytes / grid.slot > slots) {
    int64_t least = std::numeric_limits<int64_t>::max();
    for (int64_t part = 0; part < 64; ++part) {
      int64_t count = slots - slots * part / 256;
      int64_t slot = (bytes + count - 1) / count;
      int64_t error = roundingError(view, slot, rounding);
      if (error < least) {
        least = error;
        grid.slot = slot;
      }
    }
  }
  grid.slots = static_cast<int32_t>(bytes / grid.slot);
  grid.rest = bytes % grid.slot;
  return grid;
}
