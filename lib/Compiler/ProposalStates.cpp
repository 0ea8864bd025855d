//===- ProposalStates.cpp - Choice of the states of a proposal ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The state planner (StatePlanner.h) chooses states within a capacity. It does
// not know the offsets of buffers, so the arena of its solution may exceed the
// budget, although the solution is within the capacity. Then the next solution
// delays copies to the device, and further solutions are made for smaller
// capacities. A reduction of the capacity may be larger than necessary, because
// the gaps between the buffers of two similar solutions can differ by several
// per cent of the arena. Therefore, after an arena fits, larger capacities are
// tried.
//
//===----------------------------------------------------------------------===//

#include "ProposalMeasurer.h"

#include "llvm/ADT/DenseSet.h"

#include <numeric>

using namespace mlir;
using namespace kiln;

/// Maximum number of choices of states on the host that are tried for a
/// proposal, including choices that exceed the limits. kStateRounds applies if
/// the proposal is measured, kEstimateRounds if its step time is only
/// estimated.
static constexpr int kStateRounds = 10, kEstimateRounds = 3;
/// Maximum number of larger capacities that are tried after an arena fits.
static constexpr int kRegainRounds = 2;
/// A larger capacity is tried only if the estimated step time is at most this
/// factor times that of the plan that fits.
static constexpr double kWorthRegaining = 0.995;
/// Maximum number of times that offloadMost() reduces the host memory for
/// states.
static constexpr int kHostRounds = 3;
/// Maximum number of times that states are chosen again for the activations
/// that a plan offloads.
static constexpr int kJointRounds = 4;
/// After a choice that fits, the states are chosen once more only if the step
/// time is below this factor times the previous one.
static constexpr double kWorthRepeating = 0.995;

/// Returns the commands that complete gradients. The ops of the loss compute
/// some gradients in the forward pass, but the state planner accounts for them.
static llvm::SmallDenseSet<int32_t> completersOf(const StateProblem &problem) {
  llvm::SmallDenseSet<int32_t> gradients;
  for (const StateGroup &group : problem.groups)
    gradients.insert(group.gradient);
  return gradients;
}

StateProblem StateLimits::problemOf(const OffloadModel &model,
                                    ArrayRef<OffloadChoice> offloaded) const {
  StateProblem problem = model.states->problem;
  problem.capacity = capacity;
  problem.reserve = reserve;
  problem.hostCapacity = hostCapacity;
  llvm::SmallDenseSet<int32_t> gradients = completersOf(problem);
  for (auto [index, wait] : model.itemsOf(offloaded)) {
    const OffloadItem &item = model.problem.items[index];
    // A value that is needed again before it has left the device is not copied.
    if (gradients.contains(item.made) || wait <= item.left || wait >= item.back)
      continue;
    for (int32_t c = wait; c < item.back; ++c)
      problem.live[c] -= item.bytes;
    problem.otherCopies.push_back({item.bytes, true, item.made, wait});
    problem.otherCopies.push_back({item.bytes, false, wait, item.back});
  }
  return problem;
}

StateProblem StateLimits::problemOf(const OffloadModel &model) const {
  StateProblem problem = problemOf(model, {});
  if (!offloads())
    return problem;
  // Assume that activations that can be offloaded are offloaded, and subtract
  // their bytes. Unless the other activations do not suffice, exclude values
  // that are needed again before they could be copied to the host and back,
  // such as the sums of a gradient over the parts of the loss: commands would
  // wait for both copies.
  llvm::SmallDenseSet<int32_t> gradients = completersOf(problem);
  std::vector<double> begins(problem.seconds.size() + 1, 0);
  std::partial_sum(problem.seconds.begin(), problem.seconds.end(),
                   begins.begin() + 1);
  for (const OffloadItem &item : model.problem.items) {
    double copies = double(item.bytes) *
                    (problem.outSecondsPerByte + problem.inSecondsPerByte);
    double gap = begins[item.back] - begins[item.left + 1];
    if (gradients.contains(item.made) || (away != Away::All && copies > gap))
      continue;
    for (int32_t c = item.left + 1; c < item.back; ++c)
      problem.live[c] -= item.bytes;
  }
  return problem;
}

/// Returns `problem` with the options of a proposal.
static StateProblem withOptions(const Proposal &proposal,
                                StateProblem problem) {
  problem.spread = proposal.spread;
  problem.movesFitting = proposal.movesFitting;
  return problem;
}

/// Stores all states on the host. If the host memory is not sufficient, stores
/// those states on the host that reduce the device memory most. Offloads all
/// activations that can be offloaded.
Result<Choice> ProposalMeasurer::offloadMost(const StateModel &model,
                                             Proposal &proposal) {
  StateProblem problem = model.problem;
  problem.capacity = 0;
  StateSolution solution;
  solution.choices =
      spreadShares(problem.groups, {/*optimizer=*/1, /*moments=*/0,
                                    /*gradients=*/0, /*parameters=*/1});
  solution.cost = evaluateStates(problem, solution.choices);
  auto offload = [&]() -> Result<Choice> {
    proposal.states = model.marksOf(solution);
    auto formed = form(proposal, /*isOffloaded=*/true);
    if (!formed.ok())
      return formed.status();
    int64_t fragmentation = 0;
    return chooseOffload(**formed, proposal, fragmentation);
  };
  auto choice = offload();
  problem.hostCapacity = request.hostBudget;
  for (int round = 0; round < kHostRounds && choice.ok() &&
                      proposal.hostHeight > request.hostBudget;
       ++round) {
    // Offloaded activations also need host memory, so subtract the excess from
    // the memory for states.
    if (round > 0)
      problem.hostCapacity -= proposal.hostHeight - request.hostBudget;
    solution = planStates(problem);
    choice = offload();
  }
  return choice;
}

Result<Choice> ProposalMeasurer::chooseStates(Proposal &proposal,
                                              StateEffort effort) {
  auto formed = form(proposal, /*isOffloaded=*/true);
  if (!formed.ok())
    return formed.status();
  return chooseStates(std::move(*formed), proposal, effort);
}

/// Returns the states that the state planner stores on the host within the
/// limits of `problem`. `start` is the point from which the search starts, if
/// any.
StateSolution
ProposalMeasurer::solveStates(const StateProblem &problem,
                              const std::optional<StateStart> &start,
                              StateEffort effort) {
  StateSolution solution = planStates(problem, start);
  if (!solution.fits)
    return solution;
  lastStart = solution.start;
  hasNewStart = true;
  return effort == StateEffort::Refine
             ? kiln::refineStates(problem, std::move(solution))
             : solution;
}

/// Measures a proposal with a solution of the state planner, which was made for
/// the limits of the proposal. With StateEffort::Estimate, only estimates the
/// step time. `fragmentation` is that of chooseOffload().
Result<Choice> ProposalMeasurer::measureStates(const StateModel &model,
                                               const StateSolution &solution,
                                               Proposal &proposal,
                                               StateEffort effort,
                                               int64_t &fragmentation) {
  bool estimates = effort == StateEffort::Estimate;
  bool offloads = proposal.limits->offloads();
  proposal.seconds = solution.cost.seconds;
  if (estimates && !offloads)
    return Choice::Fits;
  proposal.offload.clear();
  proposal.states = model.marksOf(solution);
  auto formed = form(proposal, offloads);
  if (!formed.ok())
    return formed.status();
  auto choice =
      offloads ? chooseOffload(**formed, proposal, fragmentation, estimates)
               : schedule(**formed, proposal, goalOf(proposal));
  // The estimate for activations does not include the copies of states, so use
  // the larger of both estimates.
  if (choice.ok() && estimates)
    proposal.seconds = std::max(proposal.seconds, solution.cost.seconds);
  return choice;
}

/// Chooses the states that are stored on the host so that the proposal fits in
/// memory. If a scheduled arena exceeds its budget although the solver
/// predicted that it fits, tightens the limits given to the solver and chooses
/// again. If no choice of states fits, also offloads activations. Returns
/// Choice::Exceeds if that does not suffice either. With StateEffort::Refine,
/// also tries to use the memory that a plan leaves free. With
/// StateEffort::Estimate, only estimates the step time.
Result<Choice> ProposalMeasurer::chooseStates(OwningOpRef<ModuleOp> dispatched,
                                              Proposal &proposal,
                                              StateEffort effort) {
  auto model = modelOf(std::move(dispatched), /*describesStates=*/true);
  if (failed(model) || !model->states)
    return Status::error("internal error: the states that a plan stores on the "
                         "host could not be chosen");
  if (offloadsMost)
    return offloadMost(*model->states, proposal);
  bool refines = effort == StateEffort::Refine;
  StateLimits limits = proposal.limits.value_or(StateLimits(request));
  int rounds = effort == StateEffort::Estimate ? kEstimateRounds : kStateRounds;
  int64_t fragmentation = 0;
  for (int round = 0; round < rounds; ++round) {
    StateProblem problem = withOptions(proposal, limits.problemOf(*model));
    StateSolution solution = solveStates(
        problem, refines && round == 0 ? std::nullopt : lastStart, effort);
    if (!solution.fits) {
      if (!limits.relax())
        return Choice::Exceeds;
      continue;
    }
    proposal.limits = limits;
    if (abandons(solution.cost.seconds)) {
      proposal.seconds = solution.cost.seconds;
      return Choice::Abandoned;
    }
    auto choice = measureStates(*model->states, solution, proposal, effort,
                                fragmentation);
    if (choice.ok() && *choice == Choice::Fits && refines) {
      Status status =
          regainMemory(*model, solution.cost.seconds, fragmentation, proposal);
      if (status.ok())
        status = refineJointly(*model, fragmentation, proposal);
      if (!status.ok())
        return status;
    }
    if (!choice.ok() || *choice != Choice::Exceeds)
      return choice;
    limits.reduce(proposal.height - request.budget,
                  proposal.hostHeight - request.hostBudget,
                  /*delaysCopies=*/effort != StateEffort::Estimate);
  }
  return Choice::Exceeds;
}

/// Tries capacities between that of a proposal that fits, whose step time the
/// state planner estimates as `estimate` seconds, and the smallest one whose
/// arena exceeded the budget. Replaces the proposal if a plan with such a
/// capacity fits and is faster. `fragmentation` is that of chooseOffload() for
/// the proposal.
Status ProposalMeasurer::regainMemory(const OffloadModel &model,
                                      double estimate, int64_t fragmentation,
                                      Proposal &proposal) {
  for (int round = 0; round < kRegainRounds; ++round) {
    std::optional<StateLimits> larger =
        proposal.limits->interpolate(request.budget - proposal.height);
    if (!larger)
      break;
    StateProblem problem = withOptions(proposal, larger->problemOf(model));
    StateSolution solution =
        solveStates(problem, lastStart, StateEffort::Refine);
    if (!solution.fits || solution.cost.seconds > kWorthRegaining * estimate)
      break;
    Proposal trial = proposal;
    trial.limits = larger;
    int64_t trialFragmentation = fragmentation;
    auto choice = measureStates(*model.states, solution, trial,
                                StateEffort::Refine, trialFragmentation);
    if (!choice.ok())
      return choice.status();
    if (*choice == Choice::Fits && trial.seconds < proposal.seconds) {
      estimate = solution.cost.seconds;
      proposal = std::move(trial);
    } else if (*choice == Choice::Exceeds) {
      proposal.limits->exceedsWith(*larger, trial.height - request.budget);
    } else {
      break;
    }
  }
  return Status();
}

/// Chooses again which states of a proposal that fits are stored on the host.
/// The choice takes into account the activations that the proposal offloads:
/// their copies delay copies of states, and states can use their memory. Then
/// chooses again which activations are offloaded, and replaces the proposal if
/// the result is faster. Repeats both steps.
/// `fragmentation` is that of chooseOffload() for the proposal.
Status ProposalMeasurer::refineJointly(const OffloadModel &model,
                                       int64_t fragmentation,
                                       Proposal &proposal) {
  StateLimits limits = *proposal.limits;
  std::vector<OffloadChoice> offload = proposal.offload;
  for (int round = 0; round < kJointRounds && !offload.empty(); ++round) {
    StateProblem problem =
        withOptions(proposal, limits.problemOf(model, offload));
    StateSolution solution =
        solveStates(problem, lastStart, StateEffort::Refine);
    if (!solution.fits)
      break;
    Proposal trial = proposal;
    trial.limits = limits;
    int64_t trialFragmentation = fragmentation;
    auto choice = measureStates(*model.states, solution, trial,
                                StateEffort::Refine, trialFragmentation);
    if (!choice.ok())
      return choice.status();
    // If the trial does not fit and no activations could be chosen, the program
    // was not scheduled, and `trial.seconds` is an estimate.
    bool isMeasured = *choice == Choice::Fits || !trial.offload.empty();
    if (*choice == Choice::Abandoned ||
        (isMeasured && trial.seconds >= proposal.seconds))
      break;
    if (!trial.offload.empty())
      offload = trial.offload;
    if (*choice == Choice::Exceeds) {
      limits.reduce(trial.height - request.budget,
                    trial.hostHeight - request.hostBudget,
                    /*delaysCopies=*/true);
      continue;
    }
    bool helps = trial.seconds < kWorthRepeating * proposal.seconds;
    proposal = std::move(trial);
    if (!helps)
      break;
  }
  return Status();
}
