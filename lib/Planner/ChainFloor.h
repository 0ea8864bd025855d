//===- ChainFloor.h - The least memory of a chain ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The recurrence of ChainTable.h with the roles of time and memory exchanged:
// the fewest bytes in which a segment can be reversed at all, exactly. Works
// without slots, so it finds the plans of budgets that rounding makes
// infeasible.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINFLOOR_H
#define KILN_LIB_PLANNER_CHAINFLOOR_H

#include "ChainView.h"

namespace kiln::chain {

class Floor {
public:
  explicit Floor(const View &view);

  /// Least bytes for [i, l], a_i not counted.
  ChainFloor of(int32_t i, int32_t l) const;
  int64_t bytesOf(int32_t i, int32_t l) const {
    return floors[view.segment(i, l)].bytes;
  }

private:
  ChainFloor find(int32_t i, int32_t l) const;

  const View &view;
  /// By segment; stages count from the segment's first.
  std::vector<ChainFloor> floors;
};

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINFLOOR_H
