//===- ChainPlanner.h - Fast schedules within a byte budget -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds a fast schedule of a chain whose peak stays within a budget. A schedule
// is memory-persistent if everything that is stored stays until its backward
// use; the fastest of those is found by dynamic programming over segments of
// the chain and free memory, after Beaumont et al., "Optimal re-materialization
// strategies for heterogeneous chains", with options per stage, and with stages
// that save and drop their input. Memory is counted in slots. Then local search
// moves on to schedules that are not persistent.
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
#include <memory>
#include <optional>

namespace kiln {

struct ChainOptions {
  /// Whether options that are lossy may be used.
  bool allowLossy = false;
  /// Only memory-persistent schedules.
  bool persistentOnly = false;
  /// Slots to start with, and the most to refine to. Exact when the greatest
  /// common divisor of all stored sizes divides the budget into at most as
  /// many.
  int32_t minSlots = 128;
  int32_t maxSlots = 4096;
  /// Refinement ends when plan and bound are this close, relatively.
  double gap = 2e-4;
  /// Upper limits on elementary steps: of all tables of the dynamic program,
  /// up to half a nanosecond each, where the first refinement is always done;
  /// and of the local search, about a nanosecond each.
  uint64_t tableEffort = 6'000'000'000;
  uint64_t moveEffort = 300'000'000;
  /// The same of a ladder: of its tables, and of the local search for each
  /// plan.
  uint64_t ladderEffort = 1'200'000'000;
  uint64_t ladderMoveEffort = 3'000'000;
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
  /// Slots of the table behind the plan; 0 if everything could be saved.
  int32_t slots = 0;
};

/// A fast schedule whose peak is at most `budget` bytes, or nothing if `budget`
/// is below smallestFeasibleBudget. The chain passes verifyChain.
std::optional<ChainPlan> solveChain(const Chain &chain, int64_t budget,
                                    const ChainOptions &options = {});

/// The least peak of any persistent schedule, exact to the byte, and the pass
/// that reaches it in a schedule of that peak.
struct ChainFloor {
  int64_t bytes = 0;
  int32_t stage = 0;
  bool backward = false;
};
ChainFloor smallestFeasibleBudget(const Chain &chain,
                                  const ChainOptions &options = {});

/// Plans for many budgets of one chain, which take some milliseconds each once
/// tables for the largest budget are filled. Plans are within a small part of a
/// per cent of those that solveChain makes with all effort.
class ChainLadder {
public:
  /// For budgets of up to `largest` bytes, and those that everything fits in.
  /// The chain passes verifyChain; it is copied.
  ChainLadder(const Chain &chain, int64_t largest,
              const ChainOptions &options = {});
  ~ChainLadder();

  /// As smallestFeasibleBudget.
  ChainFloor floor() const;

  /// As solveChain, where `persistentBound` is no better than `bound`. Never
  /// slower than an earlier plan for a budget that is not larger, so what it
  /// returns depends on what was asked before.
  std::optional<ChainPlan> plan(int64_t budget);

private:
  struct State;
  std::unique_ptr<State> state;
};

/// A lower bound on the time of every schedule within the budget, persistent or
/// not: a linear relaxation in which each stage either keeps what an option
/// saves from its only forward pass, or runs its forward pass twice. Tight
/// while two forward passes per stage are enough. Infinite below the floor at
/// most.
double relaxedTimeBound(const Chain &chain, int64_t budget,
                        const ChainOptions &options = {});

} // namespace kiln

#endif // KILN_PLANNER_CHAINPLANNER_H
