//===- ProposalMeasurer.h - Measurement of plan proposals -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A proposal says what a plan recomputes and what it stores on the host. The
// measurer applies a proposal to a copy of the module, and dispatches and
// schedules the copy with the passes of the final pipeline, so the arena height
// of a proposal is exact. If the proposal does not say what is stored on the
// host, the measurer chooses it. ProposalStates.cpp implements the choice of
// states.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_PROPOSALMEASURER_H
#define KILN_LIB_COMPILER_PROPOSALMEASURER_H

#include "OffloadModel.h"
#include "StageMenus.h"
#include "StateLimits.h"

#include "kiln/Compiler/Passes.h"
#include "kiln/Compiler/Pipelines.h"

#include <limits>
#include <optional>

namespace kiln {

/// The planner makes plans for a list of memory budgets. It measures all of
/// these plans for a program of up to kSmallOps ops, and only some of them for
/// a larger program.
inline constexpr int64_t kSmallOps = 1600;

/// What the search for the buffer offsets of a proposal looks for.
enum class ArenaGoal {
  Fit,  ///< Any arena that fits the budget.
  Least ///< The lowest arena.
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
  std::optional<StateLimits> limits; ///< Memory limits for choosing `states`.
  /// How shares are spread over the parameters when `states` are chosen.
  Spread spread = Spread::OverAll;
  /// True if states may be stored on the host although all states fit on the
  /// device.
  bool movesFitting = false;
  /// States on the host that are copied to the device once per step, see
  /// kKeepAttr.
  std::vector<mlir::StringAttr> kept;
  /// True if materializations (values computed from states alone) that are kept
  /// for the backward pass are computed once, before the micro-batches.
  bool hoists = true;
  /// Arena height up to which all-gathers of states may start early, see
  /// kGatherHeightAttr. If unset, early all-gathers do not make the arena
  /// higher.
  std::optional<int64_t> gatherHeight;
  /// The heights of the device arena and of the host arena, in bytes. Until the
  /// proposal is scheduled, `height` exceeds every budget.
  int64_t height = std::numeric_limits<int64_t>::max(), hostHeight = 0;
  /// What the search for buffer offsets looked for when the proposal was
  /// scheduled.
  ArenaGoal goal = ArenaGoal::Least;
  /// True if the proposal was not scheduled, because the states on the device
  /// leave too little memory even if most activations are on the host.
  bool isHopeless = false;
  double seconds = 0;
  /// Lower bound, in seconds, on the step time of all schedules that fit the
  /// memory budget of the chain of stages.
  double bound = 0;
  /// Name of the command at which the live bytes of a step peak, or
  /// `averagesOfStates` if averaging the states over ranks needs more memory.
  std::string peak;
};

/// The value of Proposal::peak if the program that averages the states over
/// ranks (the program of kind Sync) needs a larger device arena than the
/// training step.
inline constexpr llvm::StringLiteral averagesOfStates = "@sync";

/// Live bytes while a program runs.
struct LiveCurve {
  std::vector<int64_t> live;  ///< Live bytes per command, without states.
  std::vector<int64_t> heavy; ///< Indices of the matmuls and attention ops.
  /// Indices of the commands that are launches and GEMMs.
  std::vector<int64_t> computing;
  std::string peak; ///< Name of the command at which the live bytes peak.
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

/// Measures the memory and estimates the step time of proposals, which are
/// candidate plans. Copies of a measurer can measure other proposals at the
/// same time on other threads, if the context allows several threads.
class ProposalMeasurer {
public:
  ProposalMeasurer(mlir::ModuleOp module, const Machine &machine,
                   const PlanMemoryOptions &request);

  /// Measures a proposal. If `keepsAll` is false and offloading is allowed,
  /// also chooses what is offloaded.
  Status measure(Proposal &proposal, bool keepsAll = false,
                 LiveCurve *liveCurve = nullptr);
  /// Chooses again which states are stored on the host, and measures the
  /// proposal unless `effort` is StateEffort::Estimate.
  Result<Choice> chooseStates(Proposal &proposal, StateEffort effort);
  /// Returns the input of the state planner for a proposal that leaves all
  /// states on the device.
  Result<OffloadModel> describe(const Proposal &proposal);

  bool fits(const Proposal &proposal) const {
    return proposal.height <= request.budget &&
           proposal.hostHeight <= request.hostBudget;
  }
  /// Returns true if the measurer chooses where the states of a proposal are
  /// stored.
  bool placesStates() const { return movesStates && !keepsStates; }
  /// Returns true if the program is so large that the plans for only some of
  /// the memory budgets are measured.
  bool isLarge() const { return ops > kSmallOps; }
  bool hasLimit() const {
    return limit < std::numeric_limits<double>::infinity();
  }
  /// Makes measurements end early if the step time of the proposal cannot be
  /// below `seconds`.
  void mustBeat(double seconds) { limit = fastest = seconds; }
  /// Returns a copy of this measurer.
  ProposalMeasurer fork() const;
  /// Merges the results of `copy`, which fork() returned, such as its fastest
  /// step time, into this measurer.
  void merge(const ProposalMeasurer &copy);

  /// True if proposals may store states on the host.
  bool movesStates = false;
  /// True while proposals leave all states on the device.
  bool keepsStates = false;
  /// True if proposals offload everything that can be offloaded, even if the
  /// request does not allow offloading.
  bool offloadsMost = false;
  int64_t ops = 0; ///< Number of ops of the training program.
  /// Seconds of the fastest proposal that fits, or `limit` if that is less.
  double fastest = std::numeric_limits<double>::infinity();
  /// Proposals with a step time of at least `limit` seconds are useless.
  double limit = std::numeric_limits<double>::infinity();
  /// True if proposals were not measured because of `limit`.
  bool skipsSome = false;

private:
  llvm::LogicalResult runPasses(mlir::ModuleOp trial, PipelinePoint from,
                                PipelinePoint to);
  Result<mlir::OwningOpRef<mlir::ModuleOp>> form(const Proposal &proposal,
                                                 bool isOffloaded);
  Result<Choice> schedule(mlir::ModuleOp dispatched, Proposal &proposal,
                          ArenaGoal goal, LiveCurve *liveCurve = nullptr);
  Result<Choice> chooseStates(mlir::OwningOpRef<mlir::ModuleOp> dispatched,
                              Proposal &proposal, StateEffort effort);
  StateSolution solveStates(const StateProblem &problem,
                            const std::optional<StateStart> &start,
                            StateEffort effort);
  Result<Choice> measureStates(const StateModel &model,
                               const StateSolution &solution,
                               Proposal &proposal, StateEffort effort,
                               int64_t &fragmentation);
  Status regainMemory(const OffloadModel &model, double estimate,
                      int64_t fragmentation, Proposal &proposal);
  Status refineJointly(const OffloadModel &model, int64_t fragmentation,
                       Proposal &proposal);
  ArenaGoal goalOf(const Proposal &proposal) const;
  bool canFit(const OffloadModel &model) const;
  Result<Choice> chooseOffload(mlir::ModuleOp dispatched, Proposal &proposal,
                               int64_t &fragmentation, bool estimates = false);
  Result<Choice> offloadMost(const StateModel &model, Proposal &proposal);
  llvm::FailureOr<OffloadModel>
  modelOf(mlir::OwningOpRef<mlir::ModuleOp> dispatched, bool describesStates);
  bool abandons(double seconds);

  mlir::ModuleOp module;
  const Machine &machine;
  const PlanMemoryOptions &request;
  /// The `start` of the last solution of planStates() that fits: the point from
  /// which later searches for the states to store on the host start.
  std::optional<StateStart> lastStart;
  /// True if `lastStart` was set after fork().
  bool hasNewStart = false;
};

/// Returns the training program of a module, or null if there is none.
ProgramOp trainProgram(mlir::ModuleOp module);

/// Adds the attributes of a proposal to the module:
///   - to reads of states on the host, the prefetch distance (kPrefetchAttr),
///     and the mark that all readers share one copy on the device (kKeepAttr);
///   - to the training program, the arena height up to which all-gathers of
///     states may start early (kGatherHeightAttr).
void markTransfers(mlir::ModuleOp module, const Proposal &proposal);

/// Moves the states that a proposal stores on the host into host memory, and
/// marks the reads of these states with the prefetch distances of the copies.
llvm::LogicalResult moveStates(mlir::ModuleOp module, const Proposal &proposal);

/// Makes kiln-schedule search for the buffer offsets of all programs as for a
/// proposal with ArenaGoal::Fit.
void markArenaSearch(mlir::ModuleOp module, int64_t budget);

/// Corrects the estimated workspaces of the stages with `curve`, the live bytes
/// of the scheduled program that recomputes nothing. The positions of its heavy
/// ops (matmuls and attention) show which commands belong to which stage.
void calibrate(StageMenus &menus, const LiveCurve &curve);

} // namespace kiln

#endif // KILN_LIB_COMPILER_PROPOSALMEASURER_H
