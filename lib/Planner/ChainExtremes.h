//===- ChainExtremes.h - Plans that need no table ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The two ends of what a chain can trade: the schedule of least memory, and the
// one of least time.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINEXTREMES_H
#define KILN_LIB_PLANNER_CHAINEXTREMES_H

#include "ChainView.h"

namespace kiln::chain {

/// A schedule of least memory, over all options, whatever its time.
struct Leanest {
  Leanest(const Chain &chain, const ChainOptions &options);
  ChainFloor floor(const Chain &chain) const;

  int64_t bytes = 0; // with a_0
  std::vector<ChainOp> ops;
};

/// Each stage saves what its fastest option does.
std::vector<ChainOp> saveEverything(const View &view);

/// Simulates the schedule, and makes it the plan if that has none or a slower
/// one. What the plan says about bounds stays.
bool considerOps(const Chain &chain, int64_t budget, std::vector<ChainOp> ops,
                 int32_t slots, ChainPlan &best);

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINEXTREMES_H
