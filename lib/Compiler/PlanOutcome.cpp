//===- PlanOutcome.cpp - Result of the memory planner -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Planning.h"

#include "PlanChoices.h"
#include "PlanRemarks.h"

#include "kiln/Dialect/Kiln/Transforms/Offload.h"
#include "kiln/Report/PlanReport.h"

#include "llvm/ADT/ScopeExit.h"

using namespace mlir;
using namespace kiln;

/// Measures the recomputation policies "full" and "poor" and, for each ladder
/// (plans for ascending budgets), the plan for the smallest budget. These plans
/// offload everything that can be offloaded. Returns true if one of them fits
/// into the memory budgets of device and host.
Result<bool> MemoryPlanner::measureLeast() {
  if (leastFits)
    return *leastFits;
  llvm::scope_exit restore([&] { measurer.offloadsMost = false; });
  measurer.offloadsMost = true;
  SmallVector<Proposal *> proposals;
  for (Ladder &ladder : ladders) {
    auto plan = ladder.plans->plan(ladder.budget(0));
    if (!plan)
      continue;
    proposals.push_back(&others.emplace_back());
    proposals.back()->cut = ladder.cut;
    proposals.back()->schedule = ladder.menus.scheduleOf(plan->ops);
    proposals.back()->bound = leastSeconds();
  }
  llvm::append_range(proposals, addNamed());
  Status status =
      runAtOnce(proposals.size(), [&](size_t i, ProposalMeasurer &copy) {
        return copy.measure(*proposals[i]);
      });
  if (!status.ok())
    return status;
  leastFits = llvm::any_of(proposals,
                           [&](const Proposal *least) { return fits(*least); });
  return *leastFits;
}

Status MemoryPlanner::refuse(int64_t &leastBudget) {
  int64_t least = std::numeric_limits<int64_t>::max(), leastHost = least;
  std::string peak;
  forEachProposal([&](const Proposal &proposal) {
    if (proposal.schedule.empty() || proposal.isHopeless)
      return;
    leastHost = std::min(leastHost, proposal.hostHeight);
    if (proposal.height >= least || proposal.hostHeight > request.hostBudget)
      return;
    least = proposal.height;
    peak = proposal.peak;
  });
  auto bytes = [](int64_t count) {
    return report::bytesText(count) + " (" + std::to_string(count) + " bytes)";
  };
  if (peak.empty())
    return Status(ExitCode::OverBudget,
                  "the plan does not fit: --host-memory-budget is " +
                      bytes(request.hostBudget) + " and " + bytes(leastHost) +
                      " are needed on the host; raise it, or name less in "
                      "--offload");
  leastBudget = least;
  if (peak == averagesOfStates)
    return Status(ExitCode::OverBudget,
                  "the plan does not fit: --memory-budget is " +
                      bytes(request.budget) +
                      ", and the averages of "
                      "--sync-every need " +
                      bytes(least) +
                      "; raise the budget, or offload fewer states: those on "
                      "the host are averaged on the device");
  std::string policy, hint = "raise the budget, ";
  if (!choosesRecompute(request)) {
    policy = " with --recompute=" + request.policy;
    hint += "leave --recompute to the planner, ";
  }
  hint += "lower --batch or --seq";
  if (request.suggestMicrobatches)
    hint += ", or split the batch with --microbatches=auto";
  // Determine whether offloading activations would reduce the smallest feasible
  // budget.
  bool statesStay = llvm::none_of(module.getOps<StateOp>(), [](StateOp state) {
    return memoryOf(state.getType()) == MemorySpace::Host;
  });
  if (!request.offloadActivations && choosesRecompute(request) && statesStay) {
    size_t measured = others.size();
    if (auto isFeasible = measureLeast(); !isFeasible.ok())
      return isFeasible.status();
    int64_t offloaded = least;
    for (const Proposal &proposal : llvm::drop_begin(others, measured))
      offloaded = std::min(offloaded, proposal.height);
    if (offloaded < least)
      hint +=
          ", or allow --offload=activations, which reaches " + bytes(offloaded);
  }
  return Status(ExitCode::OverBudget,
                "the plan does not fit: --memory-budget is " +
                    bytes(request.budget) +
                    " and the smallest feasible budget" + policy + " is " +
                    bytes(least) + ", set by '" + peak + "'; " + hint);
}

void MemoryPlanner::apply(const Proposal &proposal) {
  Builder b(module.getContext());
  [[maybe_unused]] LogicalResult moved = moveStates(module, proposal);
  assert(succeeded(moved) && "the proposal was measured in the same way");
  StageChain stages(trainProgram(module), proposal.cut);
  PlanChoices choices(trainProgram(module), stages, proposal.schedule,
                      proposal.offload, machine);
  // Mark the values before recomputed ops are added to the block, because
  // markForwardOps() finds values by position.
  markForwardOps(trainProgram(module), proposal.offload);
  applyRecompute(stages, proposal.schedule);
  hoistMaterializations(stages);
  markTransfers(module, proposal);
  if (proposal.goal == ArenaGoal::Fit)
    markArenaSearch(module, request.budget);
  trainProgram(module).walk([](RecomputeOp repeated) {
    repeated.walk([](Operation *op) { op->removeAttr(kOffloadAttr); });
  });
  choices.priceRepeats(trainProgram(module), machine);
  double bound = reportedBound(proposal);
  const Proposal &unplanned = reference ? *reference : plain;
  if (reference)
    bound = std::min(bound, reference->seconds);
  auto limit = [](int64_t budget) {
    return budget == kNoBudget ? std::nullopt : std::optional<int64_t>(budget);
  };
  auto milliseconds = [&](double seconds) {
    return b.getF64FloatAttr(1e3 * seconds);
  };
  module->setAttr(
      kPlanAttr,
      PlanAttr::get(module.getContext(), limit(request.budget),
                    limit(request.hostBudget), proposal.height,
                    proposal.hostHeight, milliseconds(proposal.seconds),
                    milliseconds(std::min(bound, proposal.seconds)),
                    milliseconds(unplanned.seconds), unplanned.height,
                    choices.attribute(module.getContext())));

  PlanFacts facts;
  facts.height = proposal.height;
  facts.hostHeight = proposal.hostHeight;
  facts.seconds = proposal.seconds;
  facts.bound = std::min(bound, proposal.seconds);
  facts.unplannedHeight = unplanned.height;
  facts.unplannedSeconds = unplanned.seconds;
  llvm::SmallDenseSet<StateOp> kept;
  for (ReadOp read : readsAcross(trainProgram(module)))
    if (read->hasAttr(kKeepAttr))
      kept.insert(SymbolTable::lookupNearestSymbolFrom<StateOp>(
          read, read.getStateAttr()));
  facts.keptStates = static_cast<int64_t>(kept.size());
  for (StateOp state : kept)
    facts.keptBytes += bytesOf(state.getType());
  forEachProposal([&](const Proposal &other) {
    auto &fastest = other.offload.empty() ? facts.repeatingSeconds
                                          : facts.offloadingSeconds;
    if (fits(other) && (!fastest || other.seconds < *fastest))
      fastest = other.seconds;
  });
  remarkPlan(trainProgram(module), choices.stages(), facts, request, machine);
}
