//===- ChainGrid.h - Discretization of memory into slots --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The dynamic program counts memory in slots. m slots represent m * slot + rest
// bytes, where `slot` and `rest` are members of Grid. Sizes that are subtracted
// from m are rounded to whole slots: up for a plan, so that at least m slots
// are really free, and down for a bound, so that at most m slots are free. The
// memory needed by an operation is compared with m exactly. If all sizes are
// multiples of the slot, plan and bound agree. Rounding to nearest yields
// neither a plan nor a bound, but an estimate with a smaller error. From this
// estimate, a plan is reconstructed in bytes.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINGRID_H
#define KILN_LIB_PLANNER_CHAINGRID_H

#include "ChainView.h"

namespace kiln::chain {

struct Grid {
  int64_t slot = 1;
  int64_t rest = 0;
  int32_t slots = 0;
  enum class Rounding { Up, Nearest, Down } rounding = Rounding::Up;

  int32_t round(int64_t bytes) const {
    int64_t more = rounding == Rounding::Up        ? slot - 1
                   : rounding == Rounding::Nearest ? slot / 2
                                                   : 0;
    int64_t count = (bytes + more) / slot;
    return static_cast<int32_t>(std::min<int64_t>(count, slots + 1));
  }
  /// Returns the fewest slots that hold these bytes.
  int32_t holding(int64_t bytes) const {
    int64_t count = bytes <= rest ? 0 : (bytes - rest + slot - 1) / slot;
    return static_cast<int32_t>(std::min<int64_t>(count, slots + 1));
  }
  /// Returns the number of whole slots that fit into these bytes; negative if
  /// there are fewer than `rest` bytes.
  int32_t within(int64_t bytes) const {
    int64_t count = bytes < rest ? -1 : (bytes - rest) / slot;
    return static_cast<int32_t>(std::min<int64_t>(count, slots));
  }
};

/// Returns the largest slot size that divides the sizes of all values that
/// schedules store.
int64_t exactSlot(const View &view);

/// Returns a grid of at most `slots` slots that represents `bytes` bytes: a
/// grid without rounding errors if possible, or else a grid with small rounding
/// errors.
Grid makeGrid(const View &view, int64_t bytes, int64_t slots,
              Grid::Rounding rounding);

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINGRID_H
