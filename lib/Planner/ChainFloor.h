//===- ChainFloor.h - Least memory of the segments of a chain ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes exactly the fewest bytes in which a segment (consecutive stages) can
// be reversed, that is, in which its backward passes can run. The recurrence is
// that of ChainTable.h with the roles of time and memory exchanged. It counts
// bytes instead of slots, so it finds plans for budgets that become infeasible
// if sizes are rounded to slots.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINFLOOR_H
#define KILN_LIB_PLANNER_CHAINFLOOR_H

#include "ChainView.h"

namespace kiln::chain {

class Floor {
public:
  explicit Floor(const View &view);

  int64_t bytes(const Segment &segment) const {
    return floors[view.number(segment)];
  }
  int64_t bytes(const Choice &choice) const {
    int64_t bytes =
        std::max(choice.need, choice.stored + this->bytes(choice.right));
    return choice.hasLeft ? std::max(bytes, this->bytes(choice.left)) : bytes;
  }

private:
  const View &view;
  /// For each segment number, the fewest bytes in which the backward passes of
  /// the segment can run.
  std::vector<int64_t> floors;
};

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINFLOOR_H
