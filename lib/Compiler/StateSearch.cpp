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

#include "mlir/IR/Threading.h"

using namespace mlir;
using namespace kiln;

/// For a large program, the plans for at most this number of budgets are
/// measured.
static constexpr size_t kMeasured = 3;
/// The plan for a budget is measured if its estimate is below this factor times
/// the step time of the best proposal so far.
static constexpr double kWorthMeasuring = 0.995;
/// MemoryPlanner::rival, a plan that was estimated but not measured, is refined
/// if its estimate is below this factor times the best step time. Refinement
/// makes a step faster by up to a quarter.
static constexpr double kWorthRefining = 1.25;
/// Measured plans are refined as well if their step times are below
/// kCloseToBest times the best step time: for a small program, the best
/// kRefined of them, including the best plan; for a large program, in which
/// this takes long, only the best of the plans that offload activations and the
/// best of those that do not.
static constexpr double kCloseToBest = 1.1;
static constexpr size_t kRefined = 8;
/// If the step time of the best plan exceeds this factor times the lower bound,
/// refineStates() makes two more plans:
/// - one with Spread::WithinSizes. If fragmentation makes the other plans
///   slower, this plan may be faster.
/// - one with the policy "full", which stores the inputs of all stages and
///   recomputes everything else. The plans above were made as if all stored
///   values stayed on the device. If the inputs of the stages are offloaded to
///   the host, "full" can be faster than these plans.
static constexpr double kFarFromBound = 1.05;

/// Calls `task` for every index below `count`, on several threads at the same
/// time if the context allows it. Each call has its own copy of the measurer,
/// so that the results do not depend on the number of threads.
Status MemoryPlanner::runAtOnce(
    size_t count, llvm::function_ref<Status(size_t, ProposalMeasurer &)> task) {
  std::vector<ProposalMeasurer> copies(count, measurer.fork());
  std::vector<Status> results(count);
  parallelFor(module.getContext(), 0, count,
              [&](size_t i) { results[i] = task(i, copies[i]); });
  for (const ProposalMeasurer &copy : copies)
    measurer.merge(copy);
  for (Status &result : results)
    if (!result.ok())
      return std::move(result);
  return Status();
}

/// Estimates the step time of the plans for several budgets of a ladder (a list
/// of ascending budgets), and adds the estimates to `estimates`. Leaves out
/// budgets that are in `estimates` already, and budgets whose plans cannot be
/// faster than the best plan so far. An estimate is infinite if the plan does
/// not fit.
Status MemoryPlanner::estimateStates(Ladder &ladder, ArrayRef<int64_t> indices,
                                     std::vector<RungEstimate> &estimates) {
  double fastest = measurer.fastest;
  for (const RungEstimate &estimate : estimates)
    fastest = std::min(fastest, estimate.seconds);
  std::vector<Proposal> trials;
  size_t first = estimates.size();
  for (int64_t index : indices) {
    index = std::clamp<int64_t>(index, 0, ladder.rungCount);
    // In every ladder (plans for ascending budgets), the plan for the largest
    // budget keeps all values, so estimate this plan only for the first ladder.
    if (index == ladder.rungCount && &ladder != &ladders.front())
      continue;
    bool isKnown = llvm::any_of(estimates, [&](const RungEstimate &other) {
      return other.ladder == &ladder && other.index == index;
    });
    // The time of recomputation and the time for states on the host add up.
    if (isKnown || estimateRung(ladder, index) + stateSeconds() >= fastest)
      continue;
    estimates.push_back({std::numeric_limits<double>::infinity(),
                         estimates.size(), &ladder, index});
    auto plan = ladder.plans->plan(ladder.budget(index));
    trials.emplace_back().cut = ladder.cut;
    if (plan)
      trials.back().schedule = ladder.menus.scheduleOf(plan->ops);
  }
  return runAtOnce(trials.size(), [&](size_t i, ProposalMeasurer &copy) {
    if (trials[i].schedule.empty())
      return Status();
    auto choice = copy.chooseStates(trials[i], StateEffort::Estimate);
    RungEstimate &estimate = estimates[first + i];
    estimate.offloads = trials[i].limits && trials[i].limits->offloads();
    if (choice.ok() && *choice == Choice::Fits)
      estimate.seconds = trials[i].seconds;
    return choice.status();
  });
}

/// Finds a fast plan of a large program some of whose states may be stored on
/// the host. Estimates the step time for some budgets of the ladders (lists of
/// ascending budgets), and measures the plans with the best estimates.
Status MemoryPlanner::searchStates() {
  std::vector<RungEstimate> estimates;
  for (Ladder &ladder : ladders) {
    if (isUseless(ladder))
      continue;
    // Estimate the plan for the largest budget first. For the other plans, the
    // search for the states to store on the host starts from its result.
    SmallVector<int64_t> smaller;
    for (int64_t i = 3; i >= 0; --i)
      smaller.push_back(ladder.rungCount / 4 * i);
    for (ArrayRef<int64_t> indices :
         {ArrayRef<int64_t>(ladder.rungCount), ArrayRef<int64_t>(smaller)})
      if (Status status = estimateStates(ladder, indices, estimates);
          !status.ok())
        return status;
  }
  if (estimates.empty()) {
    measurer.skipsSome |=
        measurer.hasLimit() && measurer.fastest == measurer.limit;
    return Status();
  }
  RungEstimate center = *llvm::min_element(estimates);
  for (int64_t step = center.ladder->rungCount / 8;
       step > 1 && center.seconds < std::numeric_limits<double>::infinity();
       step /= 2) {
    if (Status status = estimateStates(
            *center.ladder, {center.index - step, center.index + step},
            estimates);
        !status.ok())
      return status;
    center = *llvm::min_element(estimates);
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
    if (!next || least >= kWorthMeasuring * measurer.fastest)
      break;
    next->isMeasured = true;
    auto measured = rung(*next->ladder, next->index);
    if (!measured.ok())
      return measured.status();
    if (fits(**measured))
      error[next->offloads] = (*measured)->seconds / next->seconds;
  }
  // refineStates() will refine the choice of states, which helps some plans
  // more than others. There are two kinds of plans: those that offload
  // activations and those that do not. If no plan of one kind was measured, let
  // refineStates() refine the best plan of this kind as well.
  for (const RungEstimate &estimate : estimates)
    if (!llvm::any_of(estimates,
                      [&](const RungEstimate &other) {
                        return other.isMeasured &&
                               other.offloads == estimate.offloads;
                      }) &&
        estimate.seconds < kWorthRefining * measurer.fastest &&
        (!rival || estimate < *rival))
      rival = estimate;
  return Status();
}

/// Computes lower bounds on the time of a program that may store states on the
/// host. StateBound::rest counts only time after the norm of all gradients is
/// known. Nothing is recomputed in this time, so the time of recomputation can
/// be added to it.
Status MemoryPlanner::boundStates(const LiveCurve &curve) {
  if (!measurer.movesStates)
    return Status();
  auto model = measurer.describe(plain);
  if (!model.ok())
    return model.status();
  if (!model->states)
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

/// Stores states of a small program on the host, although the program fits into
/// memory, if this makes the step faster by more than the factor
/// kOptimalityTolerance: the host can update some parameters while the device
/// computes. Without this, more memory could make the step several per cent
/// slower. For a large program, the search would take long and the gain is
/// small.
Status MemoryPlanner::moveFittingStates() {
  double worthMoving = plain.seconds / kOptimalityTolerance;
  if (stateBound->seconds >= worthMoving)
    return Status();
  Proposal &trial = others.emplace_back();
  trial.cut = plain.cut;
  trial.schedule = plain.schedule;
  trial.bound = plain.bound;
  trial.movesFitting = true;
  auto choice = measurer.chooseStates(trial, StateEffort::Refine);
  if (choice.ok() && *choice == Choice::Fits && trial.seconds < worthMoving)
    best = &trial;
  return choice.status();
}

/// Returns the measured proposals that kCloseToBest describes, the best first.
std::vector<const Proposal *> MemoryPlanner::findCloseToBest() {
  std::vector<const Proposal *> close;
  forEachProposal([&](const Proposal &proposal) {
    if (&proposal != best && proposal.limits && fits(proposal) &&
        proposal.seconds < kCloseToBest * best->seconds)
      close.push_back(&proposal);
  });
  std::stable_sort(close.begin(), close.end(),
                   [](const Proposal *a, const Proposal *b) {
                     return a->seconds < b->seconds;
                   });
  std::vector<const Proposal *> found = {best};
  for (const Proposal *proposal : close) {
    bool isKnown = llvm::any_of(found, [&](const Proposal *other) {
      return other->offload.empty() == proposal->offload.empty() &&
             (measurer.isLarge() || (other->cut == proposal->cut &&
                                     other->schedule == proposal->schedule));
    });
    if (!isKnown && found.size() < kRefined)
      found.push_back(proposal);
  }
  return found;
}

/// Chooses again, with more effort, which states are stored on the host. Does
/// so for the best proposal, for the proposals that kCloseToBest describes, for
/// `rival` (a plan that may be faster but was only estimated) and, unless the
/// best proposal is close to the lower bound, for those that kFarFromBound
/// describes.
Status MemoryPlanner::refineStates() {
  if (!best->states->any())
    return Status();
  std::vector<Proposal *> trials;
  auto add = [&](StageCut cut, RecomputeSchedule schedule, double bound) {
    trials.push_back(&others.emplace_back());
    trials.back()->cut = cut;
    trials.back()->schedule = std::move(schedule);
    trials.back()->bound = bound;
  };
  for (const Proposal *proposal : findCloseToBest()) {
    add(proposal->cut, proposal->schedule, proposal->bound);
    trials.back()->limits = proposal->limits;
  }
  if (rival) {
    Ladder &ladder = *rival->ladder;
    auto plan = ladder.plans->plan(ladder.budget(rival->index));
    add(ladder.cut, ladder.menus.scheduleOf(plan->ops), leastSeconds());
  }
  if (llvm::all_of(ladders, [&](const Ladder &ladder) {
        return best->seconds > kFarFromBound * boundOf(ladder);
      })) {
    add(best->cut, best->schedule, best->bound);
    trials.back()->spread = Spread::WithinSizes;
    if (choosesRecompute(request)) {
      StageChain stages(trainProgram(module), StageCut::Everywhere);
      add(StageCut::Everywhere, *namedSchedule("full", stages), leastSeconds());
    }
  }
  std::vector<Choice> choices(trials.size(), Choice::Exceeds);
  Status status =
      runAtOnce(trials.size(), [&](size_t i, ProposalMeasurer &copy) {
        auto choice = copy.chooseStates(*trials[i], StateEffort::Refine);
        if (choice.ok())
          choices[i] = *choice;
        return choice.status();
      });
  if (!status.ok())
    return status;
  for (auto [proposal, choice] : llvm::zip_equal(trials, choices))
    if (choice == Choice::Fits && proposal->seconds < best->seconds)
      best = proposal;
  measurer.fastest = std::min(measurer.fastest, best->seconds);
  return Status();
}
