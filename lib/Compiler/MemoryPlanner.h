//===- MemoryPlanner.h - The fastest step within a budget -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Chooses what the backward pass repeats and what waits for it on the host, so
// that the arena of the scheduled program fits a budget and the step is as fast
// as it can be. The chain's dynamic program proposes schedules; each proposal
// is applied to a copy of the module, which is then dispatched and scheduled by
// the passes that run in the end, so that its height is the true one, to the
// byte.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_MEMORYPLANNER_H
#define KILN_LIB_COMPILER_MEMORYPLANNER_H

#include "kiln/Compiler/Passes.h"

#include <limits>

namespace kiln {

/// A budget that everything fits.
inline constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();
/// A plan this close to a bound is not improved on.
inline constexpr double kOptimalityTolerance = 1.005;

/// True if the planner, and no named policy, chooses what is repeated.
inline bool choosesRecompute(const PlanMemoryOptions &request) {
  return request.policy == "optimal";
}

} // namespace kiln

#endif // KILN_LIB_COMPILER_MEMORYPLANNER_H
