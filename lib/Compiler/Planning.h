//===- Planning.h - Search of the memory planner ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Declares the class that implements kiln-plan-memory and stores the proposals.
// MemoryPlanner.cpp searches, MeasureProposal.cpp measures a proposal, and
// PlanOutcome.cpp applies the best one or reports that none fits.
// KeepOnDevice.cpp chooses the parameters on the host that the device keeps for
// a whole step.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_PLANNING_H
#define KILN_LIB_COMPILER_PLANNING_H

#include "MemoryPlanner.h"
#include "OffloadModel.h"
#include "StageMenus.h"

#include "kiln/Compiler/Passes.h"
#include "kiln/Compiler/Pipelines.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
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

/// For a program of up to kSmallOps ops, the plans for all budgets of a ladder
/// are measured; for a larger program, only some of them.
inline constexpr int64_t kSmallOps = 1600;

/// A proposal with offloading is abandoned if its estimated step time exceeds
/// kPruneRatio times that of the fastest plan found so far.
inline constexpr double kPruneRatio = 1.03;

/// The memory limits within which chooseStates() chooses the states on the
/// host. A solution may use all memory within the limits, so that copies to the
/// device can start early. If offloads() is true, the limits assume that all
/// activations are offloaded, so that the states can use the memory of the
/// activations.
class StateLimits {
public:
  StateLimits() = default;
  explicit StateLimits(const PlanMemoryOptions &request)
      : capacity(request.budget), hostCapacity(request.hostBudget),
        canOffload(request.offloadActivations) {}

  /// Returns the state problem of `model` with these limits.
  StateProblem problemOf(const OffloadModel &model) const;
  bool offloads() const { return isAway; }

  /// Relaxes the limits after no choice of states was within them. Returns
  /// false if they cannot be relaxed.
  bool relax() {
    if (canOffload && !isAway) {
      isAway = true;
      return true;
    }
    // The capacity was reduced too much, so undo half of the reduction.
    isAway = false;
    reduced /= 2;
    capacity += reduced;
    return reduced > 0;
  }
  /// Tightens the limits after an arena exceeded its budget, by `excess` bytes
  /// on the device or `hostExcess` bytes on the host, or after the activations
  /// did not fit beside the states.
  void reduce(int64_t excess, int64_t hostExcess) {
    // Later reductions are larger, so that few rounds are needed.
    reduced = excess > 0
                  ? excess * (2 + reductions++) / 2 + capacity / kLeastReduction
                  : 0;
    capacity -= reduced;
    hostCapacity -= std::max<int64_t>(hostExcess, 0);
  }

private:
  /// A reduction is at least 1 / kLeastReduction of the capacity, so that few
  /// rounds are needed.
  static constexpr int64_t kLeastReduction = 512;

  int64_t capacity = 0, hostCapacity = 0;
  /// The bytes of the last reduction of the capacity, and the number of
  /// reductions.
  int64_t reduced = 0, reductions = 0;
  bool canOffload = false, isAway = false;
};

/// A recompute schedule, and the figures measured for the program that results
/// from it.
struct Proposal {
  StageCut cut = StageCut::Everywhere; ///< Cut of the program into stages.
  RecomputeSchedule schedule;
  std::vector<OffloadChoice> offload;
  std::optional<int64_t> lead; ///< Prefetch distance of states on the host.
  /// The states that the planner stores on the host, or nullopt before the
  /// planner has chosen.
  std::optional<StateMarks> states;
  std::optional<StateLimits> limits; ///< Limits of the choice of `states`.
  /// States on the host that are copied to the device once; see kKeepAttr.
  std::vector<mlir::StringAttr> kept;
  /// True if kept materializations (values computed from states alone) are
  /// computed once, before the micro-batches.
  bool hoists = true;
  /// Arena height up to which all-gathers of states may start early, see
  /// kGatherHeightAttr. If unset, early all-gathers do not make the arena
  /// higher.
  std::optional<int64_t> gatherHeight;
  /// The heights of the device arena and of the host arena, in bytes. Until the
  /// proposal is scheduled, `height` exceeds every budget.
  int64_t height = std::numeric_limits<int64_t>::max(), hostHeight = 0;
  bool isExact = false; ///< True if the heights were minimized.
  /// True if the proposal was not scheduled, because the states on the device
  /// leave too little memory even if most activations are on the host.
  bool isHopeless = false;
  double seconds = 0;
  /// Lower bound, in seconds, on the step time of all schedules that fit the
  /// memory budget of the chain of stages.
  double bound = 0;
  /// Name of the command at which the live bytes peak, or `averagesOfStates`.
  std::string peak;
};

/// The value of Proposal::peak if the program of kind Sync, which averages
/// states over ranks, uses more of the device arena than the step.
inline constexpr llvm::StringLiteral averagesOfStates = "@sync";

/// Live bytes while a program runs.
struct LiveCurve {
  std::vector<int64_t> live;  ///< Live bytes per command, without states.
  std::vector<int64_t> heavy; ///< Indices of the commands that are heavy ops.
  /// Indices of the commands that are launches and GEMMs.
  std::vector<int64_t> computing;
  std::string peak; ///< Name of the command at which the live bytes peak.
};

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
  double keepAllSeconds = 0; ///< Time of the chain that keeps everything.
  std::unique_ptr<ChainLadder> plans;
  std::map<int64_t, Proposal> rungs;
  /// The chain from which boundOf() computes the lower bound: the chain of
  /// `menus`, but without the bytes of states and gradients if these may be on
  /// the host. `otherBytes` are the bytes of the arena that belong to no stage
  /// and that every plan needs.
  Chain boundChain;
  int64_t otherBytes = 0;

  int64_t budget(int64_t index) const {
    return lowest + (highest - lowest) * index / rungCount;
  }
};

/// The estimated step time of the plan for one budget of a ladder.
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

/// What the planner needs to know about the arena of a proposal.
enum class ArenaGoal {
  Fit,  ///< Whether it fits the budget.
  Least ///< Its exact height, which is minimized.
};

/// The outcome of choosing what a proposal stores on the host.
enum class Choice {
  Fits,
  Exceeds,  ///< No solution is within the budgets.
  Abandoned ///< The estimated step time is too long.
};

/// How carefully the planner chooses the states that are stored on the host.
enum class StateEffort {
  Estimate, ///< Estimates the step time, without scheduling the program.
  Measure,
  Refine ///< Improves the choice parameter by parameter.
};

class MemoryPlanner {
public:
  MemoryPlanner(mlir::ModuleOp module, const Machine &machine,
                const PlanMemoryOptions &request);
  /// Searches for the fastest proposal that fits. Finds none if every proposal
  /// exceeds the budget, or if isBeaten().
  Status search();
  /// Ends the search without a result if no proposal can have a step time below
  /// `seconds`.
  void mustBeat(double seconds) { limit = fastest = seconds; }
  bool isBeaten() const { return !best && skipsSome; }
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
  /// Makes apply() compare the plan with `proposal` instead of unplanned().
  /// `proposal` belongs to another planner and keeps more on the device, so its
  /// step time is a lower bound.
  void compareWith(const Proposal &proposal) { reference = &proposal; }
  /// Applies the proposal that was found to the module.
  void apply() { apply(*best); }
  /// Returns the error if no proposal fits, and stores the smallest feasible
  /// budget in `leastBudget`.
  Status refuse(int64_t &leastBudget);

private:
  ProgramOp trainProgram(mlir::ModuleOp of);
  llvm::LogicalResult runPasses(mlir::ModuleOp trial, PipelinePoint from,
                                PipelinePoint to);
  Result<mlir::OwningOpRef<mlir::ModuleOp>> form(const Proposal &proposal,
                                                 bool isOffloaded);
  Status measure(Proposal &proposal, bool keepsAll = false,
                 LiveCurve *liveCurve = nullptr);
  Result<Choice> schedule(mlir::ModuleOp dispatched, Proposal &proposal,
                          ArenaGoal goal, LiveCurve *liveCurve = nullptr);
  ArenaGoal goalOf(const Proposal &proposal) const;
  bool canFit(const OffloadModel &model) const;
  Result<Choice> chooseOffload(mlir::ModuleOp dispatched, Proposal &proposal,
                               bool estimates = false);
  Result<Choice> chooseStates(mlir::ModuleOp dispatched, Proposal &proposal,
                              StateEffort effort);
  Result<double> estimateStates(Ladder &ladder, int64_t index, bool &offloads);
  Status measureBest(std::vector<RungEstimate> &estimates);
  Status searchStates();
  bool isUseless(const Ladder &ladder);
  Status refine(const Proposal &proposal);
  Status measureExactly();
  Status refineStates();
  Status boundStates(const LiveCurve &curve);
  int64_t heightOf(const LiveCurve &curve) const {
    return statelessBytes +
           *std::max_element(curve.live.begin(), curve.live.end());
  }
  Result<Choice> offloadMost(const StateModel &model, Proposal &proposal);
  /// Returns a lower bound on the seconds that storing states on the host adds
  /// to a step, not counting recomputation. The bound is negative if updates on
  /// the host save time on the device.
  double stateSeconds() const {
    return stateBound ? stateBound->rest - stateBound->updates : 0;
  }
  llvm::FailureOr<OffloadModel> modelOf(mlir::ModuleOp dispatched,
                                        bool describesStates);
  bool abandons(double seconds);
  /// Returns a lower bound on the step time of plans that recompute nothing,
  /// and thus of all plans.
  double leastSeconds() const {
    return plain.seconds - (stateBound ? stateBound->updates : 0);
  }
  Status searchLadder(Ladder &ladder);
  Status searchLadders();
  /// Returns true if the planner may store states on the host.
  bool movesStates() const { return request.offloadStates && !hasMicrobatches; }
  /// Returns true if the planner chooses where the states of a proposal are
  /// stored.
  bool placesStates() const { return movesStates() && !keepsStates; }
  bool fits(const Proposal &proposal) const {
    return proposal.height <= request.budget &&
           proposal.hostHeight <= request.hostBudget;
  }
  Status measurePlain(LiveCurve &curve);
  Status addLadders(const LiveCurve &curve);
  Status addLadder(StageCut cut, const LiveCurve &curve);
  double stepSeconds(const Ladder &ladder, double chainSeconds);
  double estimateRung(Ladder &ladder, int64_t index);
  int64_t guessRung(const Ladder &ladder, int64_t extra);
  bool hasLimit() const {
    return limit < std::numeric_limits<double>::infinity();
  }
  bool canBeatLimit(Ladder &ladder, int64_t extra, double error);
  Status propose(const Ladder &ladder, int64_t chainBytes, Proposal &proposal);
  Result<const Proposal *> rung(Ladder &ladder, int64_t index);
  Status priceNamed();
  Status searchRungs(Ladder &ladder, int64_t &low, int64_t &extra);
  Status climb(Ladder &ladder);
  Status searchOffloaded(Ladder &ladder);
  double boundOf(const Ladder &ladder) {
    return boundOf(ladder, request.budget);
  }
  double boundOf(const Ladder &ladder, int64_t budget);
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
  /// Options of the passes that measure proposals.
  PipelineOptions pipeline;
  int64_t ops = 0;      ///< Number of ops of the training program.
  int64_t inFlight = 1; ///< Maximum number of micro-batches in flight.
  int64_t microbatches = 1;
  bool hasMicrobatches = false;
  /// The arena height that corresponds to the largest budget of the chain of
  /// stages: the height of a program that recomputes, offloads and hoists
  /// nothing. States are not counted while the proposals of the ladders may
  /// move them to the host.
  int64_t chainHeight = 0;
  /// True if proposals offload everything that can be offloaded, even if the
  /// request does not allow offloading.
  bool offloadsMost = false;
  /// True if the search for buffer offsets minimizes the arena of every
  /// proposal (ArenaGoal::Least).
  bool isExact = false;
  /// The result of measureLeast(), or nullopt before its first call.
  std::optional<bool> leastFits;
  /// Seconds of the fastest proposal that fits, or `limit` if that is less.
  double fastest = std::numeric_limits<double>::infinity();
  /// Proposals with a step time of at least `limit` seconds are useless.
  double limit = std::numeric_limits<double>::infinity();
  /// True if proposals were not measured because of `limit`.
  bool skipsSome = false;
  std::list<Ladder> ladders;
  /// The ladders whose proposals leave all states on the device, after they
  /// have been replaced in `ladders` by ladders whose proposals may move
  /// states.
  std::list<Ladder> earlierLadders;
  std::list<Proposal> others; ///< Proposals of no ladder.
  Proposal plain;
  const Proposal *best = nullptr;
  /// If the planner may store states on the host: lower bounds on the time that
  /// states on the host take.
  std::optional<StateBound> stateBound;
  /// The starting point of the last search for states that found a solution.
  /// Later searches start from the same point.
  std::optional<StateStart> lastStart;
  /// The plans of the ladders are of two kinds: those that offload activations
  /// and those that do not. If no plan of one kind was measured, `rival` is the
  /// best plan of this kind according to the estimates.
  std::optional<RungEstimate> rival;
  /// Set if the planner may store states on the host. `stateless` has the live
  /// bytes of the program that recomputes nothing, without states and without
  /// gradients that wait for their updates. `statelessBytes` are the bytes of
  /// the states that stay on the device.
  std::optional<LiveCurve> stateless;
  int64_t statelessBytes = 0;
  /// The bytes of the states and gradients that are on the device at the same
  /// time if all states stay there.
  int64_t leastWithStates = 0;
  /// True while proposals leave all states on the device.
  bool keepsStates = false;
  /// The plan that keeps everything on the device, if it is not `plain`.
  const Proposal *reference = nullptr;
};

/// Plans the memory of the module: searches for the fastest proposal that fits
/// and applies it. If none fits, or if none has a step time below
/// `session.mustBeat`, returns an error, and sets `session.leastBudget` or
/// `session.isBeaten`.
Status planMemory(mlir::ModuleOp module, const Machine &machine,
                  const PlanMemoryOptions &request, PlanningSession &session);

/// Returns the figures of the program that recomputes and offloads nothing, and
/// keeps all parameters on the device. `chooseBudget` returns the budget for
/// the lower bound, given the bytes of the device arena.
Result<PlanOutlook>
outlookOf(mlir::ModuleOp module, const Machine &machine,
          const PlanMemoryOptions &request,
          llvm::function_ref<int64_t(int64_t height)> chooseBudget);

/// Adds the attributes of a proposal to the module:
///   - to reads of states on the host, the prefetch distance, or the mark that
///     the device keeps the copy;
///   - to the training program, the limit for early gathers.
void markTransfers(mlir::ModuleOp module, const Proposal &proposal);

/// Moves the states that a proposal stores on the host into host memory, and
/// marks the reads of these states with the prefetch distances of the copies.
llvm::LogicalResult moveStates(mlir::ModuleOp module, const Proposal &proposal);

/// Calibrates the workspaces of the chain with the live bytes of the scheduled
/// program that keeps everything. The positions of its heavy ops (matmuls and
/// attention) show which commands belong to which stage.
void calibrate(StageMenus &menus, const LiveCurve &curve);

} // namespace kiln

#endif // KILN_LIB_COMPILER_PLANNING_H
