//===- Planning.h - Search of the memory planner ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares the class that implements kiln-plan-memory and stores the proposals.
// MemoryPlanner.cpp and StateSearch.cpp search, PlanOutcome.cpp applies the
// best one or reports that none fits. KeepOnDevice.cpp chooses the parameters
// on the host that the device keeps for a whole step.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_PLANNING_H
#define KILN_LIB_COMPILER_PLANNING_H

#include "MemoryPlanner.h"
#include "ProposalMeasurer.h"

#include "kiln/Planner/ChainPlanner.h"

#include <algorithm>
#include <list>
#include <map>
#include <memory>
#include <optional>

namespace kiln {

/// A ladder is a list of memory budgets that are tried for the chain of stages
/// of the forward pass. kRungs is the number of intervals into which it divides
/// the range from the smallest to the largest useful budget.
inline constexpr int64_t kRungs = 96;

/// The proposals for one cut of the program into stages, one proposal per
/// memory budget of the chain of stages. A layer may consist of several blocks,
/// such as attention and feed-forward. A cut into whole layers can keep the
/// tensors between the blocks of a layer and drop the layer boundary; a cut
/// into single blocks can recompute each block on its own. Which cut is better
/// depends on the budget.
struct Ladder {
  StageCut cut;
  StageMenus menus;
  /// The smallest and the largest memory budget of the chain of stages.
  int64_t lowest = 0, highest = 0;
  int64_t rungCount = kRungs;
  double keepAllSeconds = 0; ///< Time of the chain without recomputation.
  std::unique_ptr<ChainLadder> plans;
  std::map<int64_t, Proposal> rungs;
  /// The input from which boundOf() computes the lower bound on the step time:
  /// a copy of menus.chain. If plans may store states and gradients on the
  /// host, the copy does not count their bytes.
  Chain boundChain;
  /// Bytes of the arena that every plan needs and `boundChain` does not count.
  int64_t otherBytes = 0;

  int64_t budget(int64_t index) const {
    return lowest + (highest - lowest) * index / rungCount;
  }
};

/// The estimated step time of the plan for one budget of a ladder (a list of
/// ascending budgets).
struct RungEstimate {
  double seconds;
  size_t number; ///< Index among all estimates.
  Ladder *ladder;
  int64_t index;
  bool offloads = false;
  bool isMeasured = false;
  bool operator<(const RungEstimate &other) const {
    return std::pair(seconds, number) < std::pair(other.seconds, other.number);
  }
};

class MemoryPlanner {
public:
  MemoryPlanner(mlir::ModuleOp module, const Machine &machine,
                const PlanMemoryOptions &request)
      : module(module), machine(machine), request(request),
        measurer(module, machine, request) {}
  /// Searches for the fastest proposal that fits. Finds none if every proposal
  /// exceeds the budget, or if isBeaten().
  Status search();
  /// Makes search() end without a result if no proposal can have a step time
  /// below `seconds`.
  void mustBeat(double seconds) { measurer.mustBeat(seconds); }
  bool isBeaten() const { return !best && measurer.skipsSome; }
  /// Measures the proposal that recomputes and offloads nothing, and computes a
  /// lower bound on the step time of all proposals that fit the budget.
  /// `chooseBudget` returns the budget, given the bytes of the device arena.
  Result<PlanOutlook>
  outlook(llvm::function_ref<int64_t(int64_t height)> chooseBudget);
  /// Returns the proposal that was found, or null.
  const Proposal *found() const { return best; }
  /// Returns the proposal that recomputes and offloads nothing.
  const Proposal &unplanned() const { return plain; }
  /// Looks for a faster proposal that keeps some of the states on the device
  /// for the whole step. The states that save the most time per byte if they
  /// are kept come first in `states`.
  Status keepSome(llvm::ArrayRef<StateOp> states);
  /// Makes apply() compare the plan with `proposal` instead of with this
  /// planner's own proposal that recomputes and offloads nothing. `proposal`
  /// keeps at least as much on the device, so its step time is a lower bound.
  void compareWith(const Proposal &proposal) { reference = &proposal; }
  /// Applies the best proposal to the module.
  void apply() { apply(*best); }
  /// Must be called only if no proposal fits. Returns the error for the user.
  /// Stores the smallest feasible budget in `leastBudget`, unless all proposals
  /// need too much host memory.
  Status refuse(int64_t &leastBudget);

private:
  Status runAtOnce(size_t count,
                   llvm::function_ref<Status(size_t, ProposalMeasurer &)> task);
  Status estimateStates(Ladder &ladder, llvm::ArrayRef<int64_t> indices,
                        std::vector<RungEstimate> &estimates);
  Status measureBest(std::vector<RungEstimate> &estimates);
  Status searchStates();
  bool isUseless(const Ladder &ladder);
  Status moveFittingStates();
  std::vector<const Proposal *> findCloseToBest();
  Status refineStates();
  Status boundStates(const LiveCurve &curve);
  int64_t heightOf(const LiveCurve &curve) const {
    return statelessBytes +
           *std::max_element(curve.live.begin(), curve.live.end());
  }
  /// Returns a lower bound on the seconds that storing states on the host adds
  /// to a step, not counting recomputation. The bound is negative if updates on
  /// the host save time on the device.
  double stateSeconds() const {
    return stateBound ? stateBound->rest - stateBound->updates : 0;
  }
  /// Returns a lower bound on the step time of plans that recompute nothing,
  /// and thus of all plans.
  double leastSeconds() const {
    return plain.seconds - (stateBound ? stateBound->updates : 0);
  }
  Status searchLadder(Ladder &ladder);
  Status searchLadders();
  bool fits(const Proposal &proposal) const { return measurer.fits(proposal); }
  Status measurePlain(LiveCurve &curve);
  Status addLadders(const LiveCurve &curve);
  Status addLadder(StageCut cut, const LiveCurve &curve);
  double stepSeconds(const Ladder &ladder, double chainSeconds);
  double estimateRung(Ladder &ladder, int64_t index);
  int64_t guessRung(const Ladder &ladder, int64_t extra);
  bool canBeatLimit(Ladder &ladder, int64_t extra, double error);
  Status propose(const Ladder &ladder, int64_t chainBytes, Proposal &proposal);
  Result<const Proposal *> rung(Ladder &ladder, int64_t index);
  llvm::SmallVector<Proposal *> addNamed();
  Status searchRungs(Ladder &ladder, int64_t &low, int64_t &extra);
  Status climb(Ladder &ladder);
  Status searchOffloaded(Ladder &ladder);
  double boundOf(const Ladder &ladder) {
    return boundOf(ladder, request.budget);
  }
  double boundOf(const Ladder &ladder, int64_t budget, double otherSeconds = 0);
  double reportedBound(const Proposal &proposal);
  Status tuneLeads();
  Status tuneGathers();
  Status choose(const LiveCurve &curve);
  Status fillWithStates(const Proposal &base, llvm::ArrayRef<StateOp> states);
  Result<bool> measureLeast();
  void apply(const Proposal &proposal);
  void forEachProposal(llvm::function_ref<void(const Proposal &)> visit);

  mlir::ModuleOp module;
  const Machine &machine;
  const PlanMemoryOptions &request;
  ProposalMeasurer measurer;
  int64_t inFlight = 1; ///< Maximum number of micro-batches in flight.
  int64_t microbatches = 1;
  /// The arena height of the program that recomputes, offloads and hoists
  /// nothing. The largest budget of a ladder (a list of plans for ascending
  /// budgets) corresponds to this height. While the planner tries plans that
  /// can store states on the host, these states are not counted.
  int64_t chainHeight = 0;
  /// The result of measureLeast(), or nullopt before its first call.
  std::optional<bool> leastFits;
  std::list<Ladder> ladders;
  /// Ladders (lists of plans for ascending budgets) whose plans leave all
  /// states on the device, if the planner tried such plans first. The plans in
  /// `ladders` can then store states on the host.
  std::list<Ladder> earlierLadders;
  std::list<Proposal> others; ///< Proposals that belong to no ladder.
  Proposal plain;
  const Proposal *best = nullptr;
  /// Set if the planner may store states on the host: lower bounds on the
  /// duration of the program that hold for every choice of states on the host.
  std::optional<StateBound> stateBound;
  /// Some plans offload activations, the others do not. If one of these two
  /// kinds of plans was never measured, `rival` is the plan of this kind with
  /// the best estimate.
  std::optional<RungEstimate> rival;
  /// Set if the planner may store states on the host. `stateless` has the live
  /// bytes of the program if nothing is recomputed. It counts neither states
  /// nor gradients that wait for their updates. `statelessBytes` are the bytes
  /// of the states that always stay on the device.
  std::optional<LiveCurve> stateless;
  int64_t statelessBytes = 0;
  /// The bytes of the states and gradients that are on the device at the same
  /// time if all states stay there.
  int64_t leastWithStates = 0;
  /// The plan that keeps everything on the device. If compareWith() has not set
  /// it, `plain` is this plan.
  const Proposal *reference = nullptr;
};

/// Plans the memory of the module: searches for the fastest proposal that fits
/// and applies it. If none fits, or if none has a step time below
/// `session.mustBeat`, returns an error, and sets `session.leastBudget` or
/// `session.isBeaten`.
Status planMemory(mlir::ModuleOp module, const Machine &machine,
                  const PlanMemoryOptions &request, PlanningSession &session);

/// Returns the predicted step time and memory of the program that recomputes
/// nothing and offloads no activations. If there is a budget, parameters that
/// several micro-batches would copy to the device stay there for the whole
/// step. Also returns a lower bound on the step time of all plans within the
/// budget that `chooseBudget` returns for a device arena of `height` bytes.
Result<PlanOutlook>
outlookOf(mlir::ModuleOp module, const Machine &machine,
          const PlanMemoryOptions &request,
          llvm::function_ref<int64_t(int64_t height)> chooseBudget);

} // namespace kiln

#endif // KILN_LIB_COMPILER_PLANNING_H
