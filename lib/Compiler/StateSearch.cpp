//===- StateSearch.cpp - Search for plans with states on the host ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Searches for the fastest combination of states on the host, recomputation and
// offloaded activations. For a large program, the step times of the plans for
// various budgets are first estimated by simulation, without scheduling the
// program, and only plans with good estimates are measured.
//
//===----------------------------------------------------------------------===//

#include "Planning.h"

#include "kiln/Dialect/Kiln/Transforms/Offload.h"

#include <set>

using namespace mlir;
using namespace kiln;

/// Maximum number of budgets of a large program whose plans are measured.
static constexpr size_t kMeasured = 3;
/// The plan for a budget is measured if its estimate is below this factor times
/// the step time of the best proposal so far.
static constexpr double kWorthMeasuring = 0.995;
/// MemoryPlanner::rival is refined if its estimate is below this factor times
/// the best step time. Refinement makes a step faster by up to a quarter.
static constexpr double kWorthRefining = 1.25;
/// The policy "full" is refined, too, if the step time of the best plan exceeds
/// this factor times the lower bound. No plan of a ladder has the schedule of
/// "full", which keeps the inputs of all stages: the chain assumes that they
/// need device memory. If they are offloaded instead, "full" may be fast.
static constexpr double kFarFromBound = 1.2;

/// Estimates the step time of the plan for one budget of a ladder. The estimate
/// is infinite if the plan does not fit. Stores in `offloads` whether the plan
/// offloads activations.
Result<double> MemoryPlanner::estimateStates(Ladder &ladder, int64_t index,
                                             bool &offloads) {
  auto plan = ladder.plans->plan(ladder.budget(index));
  if (!plan)
    return std::numeric_limits<double>::infinity();
  Proposal trial;
  trial.cut = ladder.cut;
  trial.schedule = ladder.menus.scheduleOf(plan->ops);
  auto formed = form(trial, /*isOffloaded=*/true);
  if (!formed.ok())
    return formed.status();
  auto choice = chooseStates(**formed, trial, StateEffort::Estimate);
  if (!choice.ok())
    return choice.status();
  offloads = trial.limits && trial.limits->offloads();
  return *choice == Choice::Fits ? trial.seconds
                                 : std::numeric_limits<double>::infinity();
}

/// Searches the ladders (plans for ascending budgets) of a large program whose
/// states may be on the host.
Status MemoryPlanner::searchStates() {
  std::vector<RungEstimate> estimates;
  std::set<std::pair<Ladder *, int64_t>> seen;
  bool isSlow = true; // No plan of a ladder can be the fastest.
  RungEstimate first = {std::numeric_limits<double>::infinity(), 0, nullptr, 0};
  auto look = [&](Ladder &ladder, int64_t index) -> Status {
    index = std::clamp<int64_t>(index, 0, ladder.rungCount);
    // The plan for the largest budget of every ladder keeps everything, so
    // estimate only that of the first ladder.
    if (index == ladder.rungCount && &ladder != &ladders.front())
      return Status();
    // The time of recomputation and the time for states on the host add up.
    double least = estimateRung(ladder, index) + stateSeconds();
    if (!seen.insert({&ladder, index}).second ||
        least >= std::min(first.seconds, fastest))
      return Status();
    isSlow = false;
    bool offloads = false;
    Result<double> seconds = estimateStates(ladder, index, offloads);
    if (!seconds.ok())
      return seconds.status();
    estimates.push_back({*seconds, estimates.size(), &ladder, index, offloads});
    first = std::min(first, estimates.back());
    return Status();
  };
  for (Ladder &ladder : ladders) {
    if (isUseless(ladder))
      continue;
    int64_t step = ladder.rungCount / 4;
    for (int64_t index = ladder.rungCount; index >= 0; index -= step)
      if (Status status = look(ladder, index); !status.ok())
        return status;
  }
  if (!first.ladder) {
    skipsSome |= isSlow && hasLimit() && fastest == limit;
    return Status();
  }
  for (int64_t step = first.ladder->rungCount / 8; step > 1; step /= 2) {
    RungEstimate center = first;
    for (int64_t index : {center.index - step, center.index + step})
      if (Status status = look(*center.ladder, index); !status.ok())
        return status;
  }
  return measureBest(estimates);
}

/// Measures the plans with the best estimates. The estimates are too low,
/// because they ignore fragmentation, and because they ignore that copies of
/// states delay copies of activations. The error is similar among all plans
/// that offload activations, and among all plans that do not.
Status MemoryPlanner::measureBest(std::vector<RungEstimate> &estimates) {
  double error[2] = {1, 1};
  for (size_t i = 0; i < std::min(estimates.size(), kMeasured); ++i) {
    RungEstimate *next = nullptr;
    double least = std::numeric_limits<double>::infinity();
    for (RungEstimate &estimate : estimates) {
      double seconds = estimate.seconds * error[estimate.offloads];
      if (!estimate.isMeasured && seconds < least) {
        next = &estimate;
        least = seconds;
      }
    }
    if (!next || least >= kWorthMeasuring * fastest)
      break;
    next->isMeasured = true;
    auto measured = rung(*next->ladder, next->index);
    if (!measured.ok())
      return measured.status();
    if (fits(**measured))
      error[next->offloads] = (*measured)->seconds / next->seconds;
  }
  // refineStates() will refine the choice of states, which helps some plans
  // more than others. The plans of the ladders are of two kinds: those that
  // offload activations and those that do not. If no plan of one kind was
  // measured, let refineStates() refine the best plan of this kind as well.
  for (const RungEstimate &estimate : estimates)
    if (!llvm::any_of(estimates,
                      [&](const RungEstimate &other) {
                        return other.isMeasured &&
                               other.offloads == estimate.offloads;
                      }) &&
        estimate.seconds < kWorthRefining * fastest &&
        (!rival || estimate < *rival))
      rival = estimate;
  return Status();
}

/// Computes lower bounds on the time that states on the host take.
/// StateBound::rest counts only time after the norm of all gradients is known.
/// Nothing is recomputed in this time, so the time of recomputation can be
/// added to it.
Status MemoryPlanner::boundStates(const LiveCurve &curve) {
  if (!movesStates())
    return Status();
  auto formed = form(plain, /*isOffloaded=*/false);
  if (!formed.ok())
    return formed.status();
  auto model = modelOf(**formed, /*describesStates=*/true);
  if (failed(model) || !model->states)
    return Status::error(
        "internal error: the states of a program could not be found");
  StateProblem &problem = model->states->problem;
  problem.capacity = request.budget;
  stateBound = kiln::boundStates(problem);
  leastWithStates = model->stateBytes;
  for (const StateGroup &group : problem.groups)
    if (group.update > problem.join && problem.join >= 0)
      leastWithStates += group.gradientBytes;
  if (problem.live.size() != curve.computing.size())
    return Status::error("internal error: the states of a program do not "
                         "belong to its commands");
  statelessBytes = problem.fixedBytes;
  stateless = curve;
  for (const StateGroup &group : problem.groups)
    if (group.gradient >= 0 && group.update >= 0)
      for (int64_t c = curve.computing[group.gradient] + 1;
           c <= curve.computing[group.update]; ++c)
        stateless->live[c] -= group.gradientBytes;
  return Status();
}

/// Chooses the states on the host again for a proposal, with more effort.
Status MemoryPlanner::refine(const Proposal &proposal) {
  Proposal &trial = others.emplace_back();
  trial.cut = proposal.cut;
  trial.schedule = proposal.schedule;
  trial.bound = proposal.bound;
  trial.limits = proposal.limits;
  auto formed = form(trial, /*isOffloaded=*/true);
  if (!formed.ok())
    return formed.status();
  auto choice = chooseStates(**formed, trial, StateEffort::Refine);
  if (!choice.ok())
    return choice.status();
  if (*choice == Choice::Fits && trial.seconds < best->seconds) {
    best = &trial;
    fastest = std::min(fastest, trial.seconds);
  }
  return Status();
}

/// Measures the exact height of the arena of the best proposal. The earlier
/// search for offsets stopped as soon as the arena fitted. The search that
/// minimizes the height is a different one, so its arena may be larger and not
/// fit. The states are then chosen again with exact heights.
Status MemoryPlanner::measureExactly() {
  Proposal &exact = others.emplace_back(*best);
  best = nullptr;
  auto formed = form(exact, /*isOffloaded=*/true);
  if (!formed.ok())
    return formed.status();
  markNumbered(**formed, exact.offload);
  auto choice = schedule(**formed, exact, ArenaGoal::Least);
  if (!choice.ok())
    return choice.status();
  if (*choice != Choice::Fits) {
    isExact = true;
    fastest = std::numeric_limits<double>::infinity();
    exact.limits->reduce(exact.height - request.budget,
                         exact.hostHeight - request.hostBudget);
    exact.states.reset();
    exact.offload.clear();
    auto again = form(exact, /*isOffloaded=*/true);
    if (!again.ok())
      return again.status();
    choice = chooseStates(**again, exact, StateEffort::Refine);
    if (!choice.ok())
      return choice.status();
  }
  if (*choice == Choice::Fits) {
    best = &exact;
    return Status();
  }
  // Use one of the plans that need the least memory.
  if (auto isFeasible = measureLeast(); !isFeasible.ok())
    return isFeasible.status();
  forEachProposal([&](const Proposal &proposal) {
    if (proposal.isExact && fits(proposal) &&
        (!best || proposal.seconds < best->seconds))
      best = &proposal;
  });
  return Status();
}

/// Refines the best proposal and the plan `rival`. If the best proposal is much
/// slower than the lower bound, also refines the policy "full".
Status MemoryPlanner::refineStates() {
  if (!best->states->any())
    return Status();
  if (Status status = refine(*best); !status.ok())
    return status;
  Proposal other;
  other.bound = leastSeconds();
  if (rival) {
    const Ladder &ladder = *rival->ladder;
    other.cut = ladder.cut;
    other.schedule = ladder.menus.scheduleOf(
        ladder.plans->plan(ladder.budget(rival->index))->ops);
    if (Status status = refine(other); !status.ok())
      return status;
  }
  if (llvm::all_of(ladders, [&](const Ladder &ladder) {
        return best->seconds > kFarFromBound * boundOf(ladder);
      })) {
    other.cut = StageCut::Everywhere;
    other.schedule =
        *namedSchedule("full", StageChain(trainProgram(module), other.cut));
    if (Status status = refine(other); !status.ok())
      return status;
  }
  return measureExactly();
}
