//===- ChainPlanner.h - Fast schedules within a byte budget -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds a fast schedule of a chain whose peak stays within a budget. A schedule
// is memory-persistent if every stored value stays until its backward use; the
// fastest of those is found by dynamic programming over (first stage, last
// stage, free memory) (Beaumont et al., "Optimal re-materialization strategies
// for heterogeneous chains", with options per stage). Memory is counted in
// slots, with sizes rounded up, so that a plan is feasible to the byte. Then
// non-persistent moves improve on it.
//
// Bounds come with the plan, so that its distance to the optimum is known.
// Everything is a pure function of chain, budget and options: effort is counted
// in steps, never in seconds.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_PLANNER_CHAINPLANNER_H
#define KILN_PLANNER_CHAINPLANNER_H

#include "kiln/Planner/Chain.h"

#include <limits>
#include <optional>

namespace kiln {

struct ChainOptions {
  /// Whether options that are lossy may be used.
  bool allowLossy = false;
  /// Only memory-persistent schedules.
  bool persistentOnly = false;
  /// Slots to start with, and the most to refine to. Exact when the greatest
  /// common divisor of all sizes divides the budget into at most maxSlots.
  int32_t minSlots = 256;
  int32_t maxSlots = 4096;
  /// Refinement ends when plan and bound are this close, relatively.
  double gap = 1e-3;
  /// Upper limits on elementary steps, of the order of a nanosecond each: of
  /// one dynamic program (more slots than that are not tried), and of the
  /// search for non-persistent moves.
  uint64_t tableEffort = 1'000'000'000;
  uint64_t moveEffort = 500'000'000;
};

struct ChainPlan {
  std::vector<ChainOp> ops;
  /// As simulated.
  double time = 0;
  int64_t peak = 0;
  int64_t hostPeak = 0;
  /// Time of the best persistent schedule found, before non-persistent moves.
  double persistentTime = 0;
  /// No persistent schedule within the budget is faster than this.
  double persistentBound = 0;
  /// No schedule at all within the budget is faster than this.
  double bound = 0;
  /// Slots of the dynamic program that found the plan; 0 if none was needed.
  int32_t slots = 0;
};

/// A fast schedule whose peak is at most `budget` bytes, or nothing if `budget`
/// is below smallestFeasibleBudget. The chain passes verifyChain.
std::optional<ChainPlan> solveChain(const Chain &chain, int64_t budget,
                                    const ChainOptions &options = {});

/// Plans for ascending budgets. A plan is never slower than that of a smaller
/// budget.
std::vector<std::optional<ChainPlan>>
solveChainLadder(const Chain &chain, llvm::ArrayRef<int64_t> budgets,
                 const ChainOptions &options = {});

/// The least peak of any persistent schedule, and the pass that sets it.
struct ChainFloor {
  int64_t bytes = 0;
  int32_t stage = 0;
  bool backward = false;
};
ChainFloor smallestFeasibleBudget(const Chain &chain,
                                  const ChainOptions &options = {});

/// A lower bound on the time of every schedule within the budget, persistent or
/// not: a linear relaxation in which each stage either keeps what an option
/// saves from its only forward pass, or runs its forward pass twice.
double relaxedTimeBound(const Chain &chain, int64_t budget,
                        const ChainOptions &options = {});

} // namespace kiln

#endif // KILN_PLANNER_CHAINPLANNER_H
