//===- MemoryPlanner.cpp - Search for the fastest plan in budget ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The planner tries several memory budgets for the chain of stages of the
// forward pass. Such a budget is called a rung. The list of the rungs is called
// the ladder, and depends only on the program. For a small program, the plans
// for all rungs are measured, and the fastest plan that fits in memory is
// chosen, so that more memory never gives a slower step. For a large program,
// this would take minutes. The arena height grows almost monotonically with the
// rung, so the planner searches for the highest rung whose plan fits. It then
// tries a budget that uses the rest of the memory.
//
//===----------------------------------------------------------------------===//

#include "Planning.h"

#include "kiln/Dialect/Kiln/Transforms/Offload.h"
#include "kiln/Report/PlanReport.h"

using namespace mlir;
using namespace kiln;

/// The ladder of a program is a list of memory budgets for which plans are
/// made. It has kRungs intervals, but only kRungs / 2 if the program is not
/// large (see ProposalMeasurer::isLarge()) and either has more than kTinyOps
/// ops or offloads activations.
static constexpr int64_t kTinyOps = 500;
/// Maximum number of stages of the forward pass for which the policy "poor",
/// which keeps only the input of the program, is tried.
static constexpr int64_t kMostInputOnlyStages = 64;
/// Candidate prefetch distances. A prefetch distance is the number of commands
/// between the start of the copy of a parameter and the first reader of the
/// copy.
static constexpr int64_t kLeads[] = {2, 12, 24, 48, 96};
/// guessRung() guesses which budgets of a ladder (a list of ascending budgets)
/// have plans that fit into the memory, and returns the index of the largest of
/// these budgets. kRungError is the assumed maximum error of this index.
static constexpr int64_t kRungError = 4;

Status MemoryPlanner::addLadder(StageCut cut, const LiveCurve &curve) {
  StageChain stages(trainProgram(module), cut);
  // Add no ladder (plans for ascending budgets) if `cut` gives the same chain
  // as the first ladder.
  if (!ladders.empty() &&
      stages.size() + 1 == ladders.front().menus.chain.size())
    return Status();
  Ladder &ladder = ladders.emplace_back();
  ladder.cut = cut;
  ladder.menus = buildStageMenus(stages, machine);
  std::optional<Chain> bound;
  if (stateless) {
    StageMenus menus = ladder.menus;
    calibrate(menus, *stateless);
    bound = std::move(menus.chain);
  }
  calibrate(ladder.menus, curve);
  ladder.menus.multiplyResiduals(inFlight);
  // If the chain cannot be solved, add no plans for it. The planner then tries
  // only the recomputation policies that have names, such as "full".
  if (!verifyChain(ladder.menus.chain).empty() ||
      (bound && !verifyChain(*bound).empty())) {
    ladders.pop_back();
    return Status();
  }
  std::vector<ChainOp> keepAll = ladder.menus.keepAll();
  ChainCost all = simulate(ladder.menus.chain, keepAll);
  if (!all.ok())
    return Status::error("internal error: " + all.error);
  ladder.keepAllSeconds = all.time;
  ladder.plans = std::make_unique<ChainLadder>(ladder.menus.chain, all.peak);
  ladder.highest = all.peak;
  ladder.lowest = std::min(all.peak, ladder.plans->floor().bytes);
  if (bound) {
    ladder.otherBytes = heightOf(*stateless) - simulate(*bound, keepAll).peak;
    ladder.boundChain = std::move(*bound);
  } else {
    ladder.otherBytes = chainHeight - all.peak;
    ladder.boundChain = ladder.menus.chain;
  }
  if (!measurer.isLarge() &&
      (measurer.ops > kTinyOps || request.offloadActivations))
    ladder.rungCount = kRungs / 2;
  return Status();
}

Status MemoryPlanner::propose(const Ladder &ladder, int64_t chainBytes,
                              Proposal &proposal) {
  auto plan = ladder.plans->plan(chainBytes);
  if (!plan)
    return Status::error("internal error: no recomputation schedule of the "
                         "chain of forward ops fits in " +
                         report::bytesText(chainBytes));
  proposal.cut = ladder.cut;
  proposal.schedule = ladder.menus.scheduleOf(plan->ops);
  // The bound of the chain holds only if one micro-batch is in flight and no
  // states are on the host. Otherwise, use a weaker bound that holds for all
  // plans.
  proposal.bound = inFlight > 1 || measurer.movesStates
                       ? leastSeconds()
                       : stepSeconds(ladder, plan->bound);
  // Neighbouring budgets often give the same schedule. Reuse the measurement of
  // a budget with the same schedule.
  for (auto &[index, rung] : ladder.rungs)
    if (&rung != &proposal && rung.schedule == proposal.schedule) {
      double bound = proposal.bound;
      proposal = rung;
      proposal.bound = bound;
      return Status();
    }
  return measurer.measure(proposal);
}

Result<const Proposal *> MemoryPlanner::rung(Ladder &ladder, int64_t index) {
  auto [it, isNew] = ladder.rungs.insert({index, {}});
  if (!isNew)
    return &it->second;
  Status status = propose(ladder, ladder.budget(index), it->second);
  if (!status.ok())
    return status;
  return &it->second;
}

/// Adds the policies "full" and "poor", which keep the fewest tensors for
/// the backward pass. They may fit the budget even if the plan with the least
/// memory in the ladders (lists of plans for ascending budgets) does not,
/// because those plans are computed from an estimate of the memory that
/// recomputation needs.
SmallVector<Proposal *> MemoryPlanner::addNamed() {
  StageChain stages(trainProgram(module));
  SmallVector<Proposal *> proposals;
  for (StringRef name : {"full", "poor"}) {
    // Skip "poor" if there are many stages, because the number of its ops is
    // quadratic in the number of stages.
    if (name == "poor" && stages.size() > kMostInputOnlyStages)
      continue;
    proposals.push_back(&others.emplace_back());
    proposals.back()->schedule = *namedSchedule(name, stages);
    proposals.back()->bound = leastSeconds();
  }
  return proposals;
}

/// Returns the step time if the chain of stages takes `chainSeconds` in every
/// micro-batch.
double MemoryPlanner::stepSeconds(const Ladder &ladder, double chainSeconds) {
  return plain.seconds +
         double(microbatches) *
             std::max(0.0, chainSeconds - ladder.keepAllSeconds);
}

/// Predicts, from the chain of stages, the step time of the plan for budget
/// `index` of a ladder (a list of ascending budgets).
double MemoryPlanner::estimateRung(Ladder &ladder, int64_t index) {
  auto plan = ladder.plans->plan(ladder.budget(index));
  return plan ? stepSeconds(ladder, plan->time) : plain.seconds;
}

/// Returns the index of the largest budget of a ladder (a list of ascending
/// budgets) whose plan fits, assuming that the arena of each plan is `extra`
/// bytes higher than the budget for which the plan is made.
int64_t MemoryPlanner::guessRung(const Ladder &ladder, int64_t extra) {
  int64_t guess = 0;
  while (guess < ladder.rungCount &&
         ladder.budget(guess + 1) + extra <= request.budget)
    ++guess;
  return guess;
}

/// Returns false if a ladder (a list of ascending budgets) probably has no plan
/// that fits and is faster than `limit`. The guess is based on a measured plan:
/// `extra` is its arena height minus the budget for which it was computed, and
/// `error` is its step time minus the result of estimateRung().
bool MemoryPlanner::canBeatLimit(Ladder &ladder, int64_t extra, double error) {
  if (!measurer.hasLimit() || inFlight > 1 || request.offloadActivations)
    return true;
  int64_t highest =
      std::min(guessRung(ladder, extra) + kRungError, ladder.rungCount);
  return estimateRung(ladder, highest) + error < measurer.limit;
}

/// Searches a ladder (a list of ascending budgets). Stores in `low` the index
/// of the largest budget whose plan fits, or -1 if none fits. Stores in `extra`
/// the arena height of the last plan examined minus the budget for which it was
/// computed. This difference varies little between plans and guides the search.
Status MemoryPlanner::searchRungs(Ladder &ladder, int64_t &low,
                                  int64_t &extra) {
  int64_t high = ladder.rungCount + 1;
  low = -1;
  extra = chainHeight - ladder.highest;
  while (low + 1 < high) {
    int64_t guess = std::clamp(guessRung(ladder, extra), low + 1, high - 1);
    auto proposal = rung(ladder, guess);
    if (!proposal.ok())
      return proposal.status();
    extra = (*proposal)->height - ladder.budget(guess);
    ((*proposal)->height <= request.budget ? low : high) = guess;
    if (!canBeatLimit(ladder, extra,
                      (*proposal)->seconds - estimateRung(ladder, guess))) {
      measurer.skipsSome = true;
      low = -1;
      break;
    }
  }
  return Status();
}

/// Searches the ladder (a list of ascending budgets for the chain of stages) of
/// a large program for the largest budget whose plan has an arena that fits in
/// memory. Then tries up to three other budgets, to use the rest of the memory.
Status MemoryPlanner::climb(Ladder &ladder) {
  int64_t low, extra;
  if (Status status = searchRungs(ladder, low, extra); !status.ok())
    return status;
  // Besides the plans of the ladder, try a proposal whose predicted arena
  // height is the whole budget. If its measured arena exceeds the budget,
  // reduce the budget of the chain of stages by the excess and try again.
  int64_t asked = ladder.highest + 1;
  for (int round = 0; low >= 0 && round < 3; ++round) {
    int64_t ask =
        std::clamp(request.budget - extra, ladder.budget(low), ladder.highest);
    if (ask >= asked)
      break;
    asked = ask;
    Proposal &careful = others.emplace_back();
    if (Status status = propose(ladder, ask, careful); !status.ok())
      return status;
    extra = careful.height - ask;
    if (careful.height <= request.budget)
      break;
  }
  return Status();
}

/// Searches the ladder (plans for ascending budgets) of a large program with
/// offloading. The budget of a plan limits the activations that are kept for
/// the backward pass, on the device or on the host. Usually every plan fits
/// into memory, because activations that do not fit on the device are
/// offloaded. A plan for a larger budget recomputes less but offloads more, so
/// the step time, except for noise, first decreases and then increases with the
/// budget.
Status MemoryPlanner::searchOffloaded(Ladder &ladder) {
  int64_t best = 0;
  double bestSeconds = std::numeric_limits<double>::infinity();
  auto look = [&](int64_t index) -> Status {
    index = std::clamp<int64_t>(index, 0, ladder.rungCount);
    auto proposal = rung(ladder, index);
    if (!proposal.ok())
      return proposal.status();
    if (fits(**proposal) && (*proposal)->seconds < bestSeconds) {
      bestSeconds = (*proposal)->seconds;
      best = index;
    }
    return Status();
  };
  double enough = kOptimalityTolerance * boundOf(ladder);
  // If the states take so much memory that neither the plan for the largest nor
  // that for the smallest budget fits, no plan between them does, with few
  // exceptions.
  bool isHopeless = measurer.keepsStates;
  for (int64_t index : {ladder.rungCount, int64_t(0)}) {
    if (!isHopeless)
      break;
    if (Status status = look(index); !status.ok())
      return status;
    isHopeless = ladder.rungs.at(index).isHopeless;
  }
  if (isHopeless)
    return Status();
  int64_t step = ladder.rungCount / 4;
  for (int64_t index = ladder.rungCount; index >= 0; index -= step) {
    if (Status status = look(index); !status.ok())
      return status;
    if (bestSeconds <= enough)
      return Status();
  }
  while ((step /= 2) > 0) {
    int64_t center = best;
    for (int64_t index : {center - step, center + step})
      if (Status status = look(index); !status.ok())
        return status;
  }
  return Status();
}

void MemoryPlanner::forEachProposal(
    llvm::function_ref<void(const Proposal &)> visit) {
  if (choosesRecompute(request))
    visit(plain);
  for (std::list<Ladder> *list : {&ladders, &earlierLadders})
    for (Ladder &ladder : *list)
      for (auto &[index, proposal] : ladder.rungs)
        visit(proposal);
  llvm::for_each(others, visit);
}

/// Returns a lower bound on the step time of all plans of the ladder, a series
/// of plans for ascending budgets. If several micro-batches are in flight, the
/// bound is the time of the plan that keeps everything. Otherwise, it is
/// computed from the chain of stages. Copies of activations may overlap with
/// the chain and with `otherSeconds` seconds per micro-batch. The search uses
/// 0, so its bound is an estimate: if copies determine the step time, it is too
/// high by the time of the launches and other commands that copies overlap
/// with.
double MemoryPlanner::boundOf(const Ladder &ladder, int64_t budget,
                              double otherSeconds) {
  if (inFlight > 1)
    return plain.seconds;
  const Chain &chain = ladder.boundChain;
  int64_t chainBudget = budget - ladder.otherBytes;
  double chainSeconds =
      request.offloadActivations
          ? offloadTimeBound(
                chain, chainBudget,
                machine.linkSecondsPerByte(LinkDirection::ToHost),
                machine.linkSecondsPerByte(LinkDirection::ToDevice),
                otherSeconds) -
                otherSeconds
          : relaxedTimeBound(chain, chainBudget);
  double bound = stepSeconds(ladder, chainSeconds) + stateSeconds();
  return stateBound ? std::max(bound, stateBound->seconds) : bound;
}

/// Returns the lower bound on the step time that is reported for a proposal. It
/// holds for all plans that fit the budget of the request.
double MemoryPlanner::reportedBound(const Proposal &proposal) {
  if (ladders.empty() || fits(plain))
    return proposal.bound;
  double bound = std::numeric_limits<double>::infinity();
  for (const Ladder &ladder : ladders) {
    double otherSeconds = std::max(0.0, plain.seconds / double(microbatches) -
                                            ladder.keepAllSeconds);
    bound = std::min(bound, boundOf(ladder, request.budget, otherSeconds));
  }
  if (request.offloadActivations || measurer.movesStates)
    return bound;
  // The bound of the proposal holds for the budget of its chain. Because
  // buffers leave gaps in the arena, this budget may be smaller or larger than
  // the memory that request.budget leaves for the chain, for which `bound`
  // holds.
  return std::min(bound, proposal.bound);
}

/// Selects the best prefetch distance for parameters on the host from a few
/// candidates. The best distance hardly depends on which values the plan
/// recomputes and offloads.
Status MemoryPlanner::tuneLeads() {
  if (best->states)
    return best->movesFitting ? Status() : refineStates();
  // If the device keeps the copy of every state for the whole step, there is no
  // prefetch distance to choose.
  bool copies =
      llvm::any_of(readsAcross(trainProgram(module)),
                   [](ReadOp read) { return !read->hasAttr(kKeepAttr); });
  if (!copies)
    return Status();
  for (int64_t lead : kLeads) {
    Proposal &trial = others.emplace_back(*best);
    trial.lead = lead;
    if (Status status = measurer.measure(trial); !status.ok())
      return status;
    if (fits(trial) && trial.seconds < best->seconds)
      best = &trial;
  }
  return Status();
}

/// Lets all-gathers of states start earlier if the best proposal does not use
/// the whole budget.
Status MemoryPlanner::tuneGathers() {
  bool gathers = trainProgram(module)
                     .walk([](AllGatherOp) { return WalkResult::interrupt(); })
                     .wasInterrupted();
  if (!gathers || request.budget == kNoBudget || best->height >= request.budget)
    return Status();
  Proposal &trial = others.emplace_back(*best);
  trial.gatherHeight = request.budget;
  if (Status status = measurer.measure(trial); !status.ok())
    return status;
  if (fits(trial) && trial.seconds < best->seconds)
    best = &trial;
  return Status();
}

/// Finds the fastest proposal that fits; sets `best` to null if there is none.
Status MemoryPlanner::choose(const LiveCurve &curve) {
  best = nullptr;
  if (fits(plain)) {
    best = &plain;
    return stateBound && !measurer.isLarge() ? moveFittingStates() : Status();
  }
  if (!measurer.movesStates) {
    Status status = addLadders(curve);
    return status.ok() ? searchLadders() : status;
  }
  // First, try plans that leave the states on the device. If the step time of
  // the fastest one is close to its lower bound, moving states cannot help.
  if (leastWithStates <= request.budget) {
    measurer.keepsStates = true;
    Status status = addLadders(curve);
    if (status.ok())
      status = searchLadders();
    measurer.keepsStates = false;
    if (!status.ok() ||
        (best && llvm::all_of(ladders, [&](const Ladder &ladder) {
           return best->seconds <= kOptimalityTolerance * boundOf(ladder);
         })))
      return status;
    earlierLadders.splice(earlierLadders.end(), ladders);
  }
  // Build the ladders (plans for ascending budgets) from the live bytes without
  // states and without gradients that wait for their updates. With the states
  // and these gradients, the live bytes peak when all gradients wait for the
  // norm of the gradients, and recomputation does not change this peak.
  chainHeight = heightOf(*stateless);
  if (Status status = addLadders(*stateless); !status.ok())
    return status;
  return searchLadders();
}

/// Searches a ladder, a series of plans for ascending budgets. Measures every
/// plan of a small program, and only some plans of a large one.
Status MemoryPlanner::searchLadder(Ladder &ladder) {
  if (measurer.isLarge())
    return request.offloadActivations ? searchOffloaded(ladder) : climb(ladder);
  for (int64_t index = 0; index <= ladder.rungCount; ++index)
    if (auto proposal = rung(ladder, index); !proposal.ok())
      return proposal.status();
  return Status();
}

/// Returns true if the lower bound of a ladder (plans for ascending budgets)
/// shows that none of its plans is much faster than the best proposal so far.
bool MemoryPlanner::isUseless(const Ladder &ladder) {
  if (best && best->seconds <= kOptimalityTolerance * boundOf(ladder))
    return true;
  if (!measurer.hasLimit() || boundOf(ladder) < measurer.limit)
    return false;
  measurer.skipsSome = true;
  return true;
}

/// Searches the plans of all ladders (lists of plans for ascending budgets),
/// and sets `best` to the fastest proposal that fits in memory.
Status MemoryPlanner::searchLadders() {
  auto findBest = [&] {
    forEachProposal([&](const Proposal &proposal) {
      if (fits(proposal) && (!best || proposal.seconds < best->seconds))
        best = &proposal;
    });
  };
  bool searchesAll = measurer.isLarge() && measurer.placesStates();
  if (searchesAll)
    if (Status status = searchStates(); !status.ok())
      return status;
  for (Ladder &ladder : ladders) {
    if (searchesAll || (measurer.isLarge() && isUseless(ladder)))
      continue;
    if (Status status = searchLadder(ladder); !status.ok())
      return status;
    if (measurer.isLarge())
      findBest();
  }
  findBest();
  if (!best && !measurer.skipsSome && measurer.placesStates()) {
    if (auto isFeasible = measureLeast(); !isFeasible.ok())
      return isFeasible.status();
  } else if ((!best && !measurer.skipsSome && !measurer.keepsStates) ||
             !measurer.isLarge()) {
    for (Proposal *named : addNamed())
      if (Status status = measurer.measure(*named); !status.ok())
        return status;
  }
  findBest();
  return Status();
}

static bool hasMaterializations(const StageChain &stages) {
  return llvm::any_of(stages.stages(), [&](const ForwardStage &stage) {
    return llvm::any_of(
        stage.ops, [&](Operation *op) { return stages.isMaterialization(op); });
  });
}

/// Measures the proposal that recomputes and offloads nothing.
Status MemoryPlanner::measurePlain(LiveCurve &curve) {
  StageChain stages(trainProgram(module));
  for (auto op : trainProgram(module).getBlock().getOps<MicrobatchesOp>()) {
    inFlight = op.getSegmentOrder().slots(op.getCount());
    microbatches = static_cast<int64_t>(op.getCount());
  }
  plain.schedule = *namedSchedule("none", stages);
  if (Status status = measurer.measure(plain, /*keepsAll=*/true, &curve);
      !status.ok())
    return status;
  plain.bound = plain.seconds;
  chainHeight = plain.height;
  if (microbatches > 1 && hasMaterializations(stages)) {
    // The chain models a program that computes the materializations (values
    // computed from states alone) again in every micro-batch, so measure such a
    // program.
    Proposal chained = plain;
    chained.hoists = false;
    if (Status status = measurer.measure(chained, /*keepsAll=*/true, &curve);
        !status.ok())
      return status;
    chainHeight = chained.height;
  }
  return Status();
}

Status MemoryPlanner::addLadders(const LiveCurve &curve) {
  if (StageChain(trainProgram(module)).size() > 0)
    for (StageCut cut : {StageCut::Layers, StageCut::Everywhere})
      if (Status status = addLadder(cut, curve); !status.ok())
        return status;
  return Status();
}

Result<PlanOutlook> MemoryPlanner::outlook(
    llvm::function_ref<int64_t(int64_t height)> chooseBudget) {
  LiveCurve curve;
  if (Status status = measurePlain(curve); !status.ok())
    return status;
  PlanOutlook outlook = {plain.seconds, plain.height, plain.hostHeight,
                         plain.seconds};
  int64_t budget = chooseBudget(plain.height);
  bool fitsPlain = plain.height <= budget;
  if (measurer.movesStates && choosesRecompute(request) &&
      (!fitsPlain || budget != kNoBudget)) {
    if (Status status = boundStates(curve); !status.ok())
      return status;
    outlook.bound = leastSeconds();
    return outlook;
  }
  if (fitsPlain || !choosesRecompute(request))
    return outlook;
  if (Status status = addLadders(curve); !status.ok())
    return status;
  double bound = std::numeric_limits<double>::infinity();
  for (const Ladder &ladder : ladders)
    bound = std::min(bound, boundOf(ladder, budget));
  if (!ladders.empty())
    outlook.bound = std::max(outlook.bound, bound);
  return outlook;
}

Status MemoryPlanner::search() {
  LiveCurve curve;
  if (Status status = measurePlain(curve); !status.ok())
    return status;
  if (!fits(plain) || request.budget != kNoBudget)
    if (Status status = boundStates(curve); !status.ok())
      return status;
  if (stateBound)
    plain.bound = std::min(plain.bound, stateBound->seconds);
  if (measurer.hasLimit() && leastSeconds() >= measurer.limit) {
    measurer.skipsSome = true;
    return Status();
  }
  if (choosesRecompute(request)) {
    if (Status status = choose(curve); !status.ok())
      return status;
  } else {
    Proposal &byHand = others.emplace_back();
    byHand.schedule =
        *namedSchedule(request.policy, StageChain(trainProgram(module)));
    byHand.bound = leastSeconds();
    if (Status status = measurer.measure(byHand); !status.ok())
      return status;
    if (fits(byHand))
      best = &byHand;
  }
  if (best)
    if (Status status = tuneLeads(); !status.ok())
      return status;
  if (best)
    if (Status status = tuneGathers(); !status.ok())
      return status;
  if (best && !fits(*best))
    return Status::error("internal error: the plan that was chosen exceeds the "
                         "budget");
  return Status();
}
