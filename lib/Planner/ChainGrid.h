//===- ChainGrid.h - Memory as a number of slots ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// m slots stand for m * slot + rest bytes. Sizes that are subtracted from m are
// rounded to whole slots: up in a plan, so that there are at least as many
// bytes as m says, and down in a bound, so that there are at most as many. What
// an operation needs is compared with m exactly. If all sizes are multiples of
// the slot, both agree. Rounding to nearest promises neither, but errs less: it
// serves as an estimate, from which a plan is rebuilt in bytes.
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
  /// The fewest slots that hold these bytes.
  int32_t holding(int64_t bytes) const {
    int64_t count = bytes <= rest ? 0 : (bytes - rest + slot - 1) / slot;
    return static_cast<int32_t>(std::min<int64_t>(count, slots + 1));
  }
  /// The slots that these bytes hold; negative if they do not hold the rest.
  int32_t within(int64_t bytes) const {
    int64_t count = bytes < rest ? -1 : (bytes - rest) / slot;
    return static_cast<int32_t>(std::min<int64_t>(count, slots));
  }
};

/// The greatest slot of which all stored sizes are multiples.
int64_t exactSlot(const View &view);

/// A grid of up to that many slots for these bytes: exact if it can be, else
/// one that suits the sizes.
Grid makeGrid(const View &view, int64_t bytes, int64_t slots,
              Grid::Rounding rounding);

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINGRID_H
