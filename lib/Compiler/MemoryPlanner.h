//===- MemoryPlanner.h - Search for the fastest plan in a budget ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The planner chooses what the backward pass recomputes and what is offloaded
// to the host, so that the arena of the scheduled program fits a budget and the
// step is as fast as possible. The dynamic program over the chain of stages
// (pieces of the forward pass) proposes schedules. Each proposal is applied to
// a copy of the module, which is then dispatched and scheduled by the passes of
// the final pipeline, so the arena height of a proposal is exact.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_MEMORYPLANNER_H
#define KILN_LIB_COMPILER_MEMORYPLANNER_H

#include "kiln/Compiler/Passes.h"

#include <limits>

namespace kiln {

/// The value of a memory budget that means that memory is not limited.
inline constexpr int64_t kNoBudget = std::numeric_limits<int64_t>::max();
/// Search stops once the step time is within this factor of the lower bound.
inline constexpr double kOptimalityTolerance = 1.005;

/// Returns true if the planner, and not a named policy, determines which values
/// are recomputed.
inline bool choosesRecompute(const PlanMemoryOptions &request) {
  return request.policy == "optimal";
}

} // namespace kiln

#endif // KILN_LIB_COMPILER_MEMORYPLANNER_H
