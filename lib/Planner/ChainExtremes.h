//===- ChainExtremes.h - Schedules of least memory and of least time ------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The two extreme schedules of a chain, which need no dynamic program: the one
// with the least memory, and the one with the least time.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_PLANNER_CHAINEXTREMES_H
#define KILN_LIB_PLANNER_CHAINEXTREMES_H

#include "ChainView.h"

namespace kiln::chain {

/// The schedule with the least memory over all options, regardless of time.
struct Leanest {
  Leanest(const Chain &chain, const ChainOptions &options);
  ChainFloor floor(const Chain &chain) const;

  int64_t bytes = 0; // Peak memory, including a_0, the input of the chain.
  std::vector<ChainOp> ops;
};

/// Returns the schedule that runs each stage once, with its fastest option for
/// saving values for the backward pass.
std::vector<ChainOp> saveEverything(const View &view);

/// Simulates the schedule, and stores it in `best` if it fits the budget and is
/// faster than the schedule in `best`, if any. Returns true if the schedule was
/// stored. The bounds in `best` are unchanged.
bool considerOps(const Chain &chain, int64_t budget, std::vector<ChainOp> ops,
                 int32_t slots, ChainPlan &best);

} // namespace kiln::chain

#endif // KILN_LIB_PLANNER_CHAINEXTREMES_H
