//===- ChainPlanner.h - Fast schedules within a byte budget -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds a fast schedule of a chain whose peak memory is within a budget. A
// schedule is memory-persistent if every stored tensor is kept until its
// backward use. The fastest memory-persistent schedule is found by dynamic
// programming over segments of the chain and free memory, following Beaumont et
// al., "Optimal re-materialization strategies for heterogeneous chains",
// extended by several options per stage and by stages that save and drop their
// input. The dynamic program measures memory in slots of equal size. A local
// search then considers schedules that are not persistent.
//
// A plan includes lower bounds, so that its distance to the optimum is known.
// The result is a pure function of the chain, budget and options: effort is
// measured in steps, not in seconds.
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
  /// True if the planner may choose lossy options.
  bool allowLossy = false;
  /// True if the planner considers only memory-persistent schedules, which keep
  /// every stored tensor until its backward use.
  bool persistentOnly = false;
  /// Initial and maximum number of slots into which the dynamic program divides
  /// the budget. The dynamic program is exact if budget / gcd(all stored sizes)
  /// <= maxSlots.
  int32_t minSlots = 128;
  int32_t maxSlots = 4096;
  /// The number of slots is increased until the best ChainPlan satisfies
  /// persistentBound >= (1 - gap) * time.
  double gap = 2e-4;
  /// Upper limits on elementary steps. `tableEffort` limits the dynamic
  /// program, whose steps take up to half a nanosecond each; at least one table
  /// is computed regardless of the limit. `moveEffort` limits the local search,
  /// whose steps take about a nanosecond each.
  uint64_t tableEffort = 6'000'000'000;
  uint64_t moveEffort = 300'000'000;
  /// The same limits for a ChainLadder, which plans for many budgets:
  /// `ladderEffort` is the limit for all its tables together, and
  /// `ladderMoveEffort` the limit for the local search of each plan.
  uint64_t ladderEffort = 1'200'000'000;
  uint64_t ladderMoveEffort = 3'000'000;
};

struct ChainPlan {
  std::vector<ChainOp> ops;
  /// Cost according to simulate().
  double time = 0;
  int64_t peak = 0;
  int64_t hostPeak = 0;
  /// Time of the best persistent schedule found, that is, a schedule that keeps
  /// every stored tensor until its backward use. The local search for
  /// non-persistent schedules starts from this schedule.
  double persistentTime = 0;
  /// Lower bound on the time of persistent schedules within the budget.
  double persistentBound = 0;
  /// Lower bound on the time of all schedules within the budget.
  double bound = 0;
  /// Number of slots into which the dynamic program that found the plan divided
  /// the memory; 0 if the plan was found without the dynamic program.
  int32_t slots = 0;
};

/// Returns a fast schedule whose peak is at most `budget` bytes, or
/// std::nullopt if `budget` is below smallestFeasibleBudget(). The chain must
/// pass verifyChain().
std::optional<ChainPlan> solveChain(const Chain &chain, int64_t budget,
                                    const ChainOptions &options = {});

/// The smallest peak, exact to the byte, of all persistent schedules, which
/// keep every stored tensor until its backward use. A schedule with this peak
/// reaches it during the forward pass of `stage` or, if `backward` is set,
/// during the backward pass of `stage`.
struct ChainFloor {
  int64_t bytes = 0;
  int32_t stage = 0;
  bool backward = false;
};
ChainFloor smallestFeasibleBudget(const Chain &chain,
                                  const ChainOptions &options = {});

/// Computes plans of one chain for many budgets. Computing a plan takes a few
/// milliseconds once the tables for the largest budget are filled. The times of
/// the schedules of plan() and of solveChain() differ by a small fraction of a
/// per cent.
class ChainLadder {
public:
  /// Prepares plans for budgets of up to `largest` bytes, and for all larger
  /// budgets that are large enough for every stage to use its fastest option.
  /// Copies the chain, which must pass verifyChain().
  ChainLadder(const Chain &chain, int64_t largest,
              const ChainOptions &options = {});
  ~ChainLadder();

  /// Returns the same as smallestFeasibleBudget().
  ChainFloor floor() const;

  /// Returns a plan as solveChain() does, except that `persistentBound` is
  /// equal to `bound`. The plan is never slower than a plan that an earlier
  /// call returned for the same or a smaller budget, so the result depends on
  /// the earlier calls.
  std::optional<ChainPlan> plan(int64_t budget);

private:
  struct State;
  std::unique_ptr<State> state;
};

/// Returns a lower bound on the time of every schedule within the budget,
/// persistent or not. The bound is the optimum of a linear relaxation in which
/// each stage either runs its forward pass once and keeps the bytes that an
/// option saves, or runs its forward pass twice. The bound is tight if two
/// forward passes per stage suffice for the budget. The bound is infinite only
/// for budgets below the smallest feasible budget.
double relaxedTimeBound(const Chain &chain, int64_t budget,
                        const ChainOptions &options = {});

/// Returns a lower bound on the time of every schedule within the budget, where
/// a schedule may also copy saved values to the host after forward passes and
/// back to the device before backward passes. `outSecondsPerByte` and
/// `inSecondsPerByte` are the seconds for which a copy of one byte occupies the
/// link to the host and to the device, respectively. `otherSeconds` is the time
/// of the work outside of the chain, such as optimizer updates. Copies may
/// overlap with this work, and the bound includes its time. The bound assumes
/// that no stage repeats its forward pass before every stage has completed its
/// first forward pass.
double offloadTimeBound(const Chain &chain, int64_t budget,
                        double outSecondsPerByte, double inSecondsPerByte,
                        double otherSeconds = 0,
                        const ChainOptions &options = {});

} // namespace kiln

#endif // KILN_PLANNER_CHAINPLANNER_H
