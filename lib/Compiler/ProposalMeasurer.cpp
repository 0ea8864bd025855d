//===- ProposalMeasurer.cpp - Measurement of plan proposals ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The measured programs contain no launch groups (launches that run as one),
// because these change neither the offsets of buffers nor the predicted time.
//
//===----------------------------------------------------------------------===//

#include "ProposalMeasurer.h"

#include "StepCost.h"

#include "kiln/Dialect/Kiln/Transforms/Offload.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/StateResidency.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "mlir/Pass/PassManager.h"

#include <numeric>

using namespace mlir;
using namespace kiln;

/// A proposal with offloading is abandoned if its estimated step time exceeds
/// kPruneRatio times that of the fastest plan found so far.
static constexpr double kPruneRatio = 1.03;
/// Maximum number of offload plans that are tried for a proposal. If
/// fragmentation makes the arena of a plan exceed the budget, the next plan is
/// made for a smaller capacity.
static constexpr int kOffloadRounds = 6;
/// Maximum number of offload plans for activations that are tried for a
/// proposal with states on the host. If none of the plans fits, other states
/// are chosen.
static constexpr int kOffloadRoundsBesideStates = 2;
/// The first offload plan of a proposal leaves memory free for the expected
/// fragmentation of the arena if this makes the step slower by at most this
/// fraction of the step time.
static constexpr double kReserveCost = 0.02;
/// Maximum number of steps of the search for buffer offsets if the goal is
/// ArenaGoal::Fit.
static constexpr int64_t kFitEffort = 100'000'000;

/// Returns the end of the highest device slot of a scheduled program, as an
/// offset in the arena.
static int64_t slotHeight(rt::ProgramOp program) {
  int64_t height = 0;
  for (rt::SlotOp slot : program.getBody().front().getOps<rt::SlotOp>())
    if (slot.getMemory() == MemorySpace::Device)
      height =
          std::max<int64_t>(height, slot.getOffset() + slot.getTotalBytes());
  return height;
}

/// Returns the live bytes of a scheduled program, the positions of its launches
/// and GEMMs, and the positions of its heavy ops (matmuls and attention).
static LiveCurve followProgram(rt::ProgramOp program) {
  SmallVector<Operation *> commands = rt::commandsOf(program);
  LiveCurve curve;
  curve.live = rt::liveBytes(program, MemorySpace::Device,
                             /*oneInFlight=*/true);
  auto module = program->getParentOfType<ModuleOp>();
  SymbolTable symbols(module);
  for (auto [i, op] : llvm::enumerate(commands)) {
    if (isa<rt::GemmOp, rt::LaunchOp>(op))
      curve.computing.push_back(static_cast<int64_t>(i));
    bool heavy = isa<rt::GemmOp>(op);
    if (auto launch = dyn_cast<rt::LaunchOp>(op)) {
      auto kernel =
          symbols.lookup<rt::KernelOp>(launch.getKernel()).getSingleOp();
      heavy = kernel && kernel.isHeavy();
    }
    if (heavy)
      curve.heavy.push_back(static_cast<int64_t>(i));
  }
  if (!curve.live.empty()) {
    curve.peak = rt::nameOf(
        commands[llvm::max_element(curve.live) - curve.live.begin()]);
  }
  return curve;
}

void kiln::markTransfers(ModuleOp module, const Proposal &proposal) {
  Builder builder(module.getContext());
  for (ProgramOp program : module.getOps<ProgramOp>()) {
    bool isTrain = program.getKind() == ProgramKind::Train;
    if (isTrain && proposal.gatherHeight)
      program->setAttr(kGatherHeightAttr,
                       builder.getI64IntegerAttr(*proposal.gatherHeight));
    if (!proposal.lead && proposal.kept.empty())
      continue;
    for (ReadOp read : readsAcross(program)) {
      if (proposal.lead && program.getKind() != ProgramKind::Sync)
        read->setAttr(kPrefetchAttr,
                      builder.getDenseI64ArrayAttr(*proposal.lead));
      if (isTrain &&
          llvm::is_contained(proposal.kept, read.getStateAttr().getAttr()))
        read->setAttr(kKeepAttr, builder.getUnitAttr());
    }
  }
}

void kiln::markArenaSearch(ModuleOp module, int64_t budget) {
  auto limits =
      DenseI64ArrayAttr::get(module.getContext(), {budget, kFitEffort});
  for (ProgramOp program : module.getOps<ProgramOp>())
    program->setAttr(kArenaSearchAttr, limits);
}

ProposalMeasurer::ProposalMeasurer(ModuleOp module, const Machine &machine,
                                   const PlanMemoryOptions &request)
    : module(module), machine(machine), request(request) {
  ProgramOp train = trainProgram(module);
  train.walk([&](Operation *) { ++ops; });
  movesStates = request.offloadStates &&
                train.getBlock().getOps<MicrobatchesOp>().empty();
}

ProgramOp kiln::trainProgram(ModuleOp module) {
  for (ProgramOp program : module.getOps<ProgramOp>())
    if (program.getKind() == ProgramKind::Train)
      return program;
  return {};
}

ProposalMeasurer ProposalMeasurer::fork() const {
  ProposalMeasurer copy = *this;
  copy.hasNewStart = false;
  return copy;
}

void ProposalMeasurer::merge(const ProposalMeasurer &copy) {
  fastest = std::min(fastest, copy.fastest);
  skipsSome |= copy.skipsSome;
  if (copy.hasNewStart) {
    lastStart = copy.lastStart;
    hasNewStart = true;
  }
}

/// Runs the passes between two points of the pipeline.
LogicalResult ProposalMeasurer::runPasses(ModuleOp trial, PipelinePoint from,
                                          PipelinePoint to) {
  PipelineOptions pipeline;
  pipeline.dispatch.fuse = request.fuse;
  pipeline.dispatch.epilogues = request.epilogues;
  pipeline.schedule.maxThreads = request.maxThreads;
  PassManager passes(trial.getContext());
  buildPipeline(passes, pipeline, from, to);
  return passes.run(trial);
}

/// Marks the gradients that a plan stores on the host.
static void markGradients(ModuleOp module, ProgramOp train,
                          ArrayRef<GradientMark> gradients) {
  llvm::DenseMap<StringAttr, const GradientMark *> marks;
  for (const GradientMark &gradient : gradients)
    marks[gradient.parameter] = &gradient;
  for (StateUpdate &update : findUpdates(module, train))
    if (const GradientMark *mark =
            marks.lookup(update.getUsed().getSymNameAttr()))
      for (OpResult gradient : gradientsOf(update))
        markOffload(gradient, mark->lag, mark->lead);
}

LogicalResult kiln::moveStates(ModuleOp module, const Proposal &proposal) {
  if (!proposal.states || !proposal.states->any())
    return success();
  for (ProgramOp program : module.getOps<ProgramOp>())
    if (program.getKind() == ProgramKind::Train)
      markGradients(module, program, proposal.states->gradients);
  Builder builder(module.getContext());
  SymbolTable symbols(module);
  llvm::DenseMap<Attribute, const StateMark *> marks;
  for (const StateMark &mark : proposal.states->states) {
    symbols.lookup(mark.state)
        ->setAttr(kResidencyAttr,
                  ResidencyAttr::get(module.getContext(), mark.residency));
    marks[mark.state] = &mark;
  }
  PassManager passes(module.getContext());
  passes.addPass(createOffloadStates());
  if (failed(passes.run(module)))
    return failure();
  for (ProgramOp program : module.getOps<ProgramOp>())
    if (program.getKind() == ProgramKind::Train)
      for (ReadOp read : readsAcross(program))
        if (const StateMark *mark = marks.lookup(read.getStateAttr().getAttr());
            mark && !mark->leads.empty())
          read->setAttr(kPrefetchAttr,
                        builder.getDenseI64ArrayAttr(mark->leads));
  return success();
}

/// Returns a copy of the module with the proposal applied, except for the
/// offloading of activations, and with its ops grouped into dispatches.
/// Host-device copies are not placed yet, because the values to offload are not
/// yet chosen. If `isOffloaded` is true, the ops of the forward pass are
/// numbered.
Result<OwningOpRef<ModuleOp>> ProposalMeasurer::form(const Proposal &proposal,
                                                     bool isOffloaded) {
  OwningOpRef<ModuleOp> copy = cast<ModuleOp>(module->clone());
  dropNumbers(*copy); // Remove op numbers that the file contains.
  ProgramOp train = trainProgram(*copy);
  if (isOffloaded)
    numberForwardOps(train);
  if (failed(moveStates(*copy, proposal)))
    return Status::error("internal error: the states of a plan could not be "
                         "moved to the host");
  StageChain stages(train, proposal.cut);
  applyRecompute(stages, proposal.schedule);
  if (proposal.hoists)
    hoistMaterializations(stages);
  markTransfers(*copy, proposal);
  train.walk([](RecomputeOp repeated) { dropNumbers(repeated); });
  if (failed(runPasses(*copy, PipelinePoint::Planned, PipelinePoint::Formed)))
    return Status::error(
        "internal error: the dispatches of a plan could not be formed");
  return copy;
}

Status ProposalMeasurer::measure(Proposal &proposal, bool keepsAll,
                                 LiveCurve *liveCurve) {
  bool choosesStates = !keepsAll && placesStates() && !proposal.states;
  bool offloads = !keepsAll && (request.offloadActivations || offloadsMost);
  auto formed = form(proposal, choosesStates || offloads);
  if (!formed.ok())
    return formed.status();
  if (!choosesStates && !offloads)
    return schedule(**formed, proposal, goalOf(proposal), liveCurve).status();
  int64_t fragmentation = 0;
  auto choice =
      choosesStates
          ? chooseStates(std::move(*formed), proposal, StateEffort::Measure)
          : chooseOffload(**formed, proposal, fragmentation);
  if (choice.ok() && *choice == Choice::Fits)
    fastest = std::min(fastest, proposal.seconds);
  return choice.status();
}

/// Schedules the program of a proposal, and stores its arena heights and step
/// time in the proposal.
Result<Choice> ProposalMeasurer::schedule(ModuleOp dispatched,
                                          Proposal &proposal, ArenaGoal goal,
                                          LiveCurve *liveCurve) {
  if (goal == ArenaGoal::Fit)
    markArenaSearch(dispatched, request.budget);
  if (failed(runPasses(dispatched, PipelinePoint::Formed,
                       PipelinePoint::Scheduled)))
    return Status::error("internal error: a plan could not be scheduled");
  rt::ArenaOp arena = *dispatched.getOps<rt::ArenaOp>().begin();
  proposal.height = arena.getHeight();
  proposal.hostHeight = arena.getHostHeight();
  proposal.goal = goal;
  int64_t train = 0, averages = 0;
  for (rt::ProgramOp program : dispatched.getOps<rt::ProgramOp>()) {
    if (program.getKind() == ProgramKind::Sync)
      averages = slotHeight(program);
    if (program.getKind() != ProgramKind::Train)
      continue;
    train = slotHeight(program);
    proposal.seconds = programSeconds(program, machine);
    LiveCurve curve = followProgram(program);
    proposal.peak = curve.peak;
    if (liveCurve)
      *liveCurve = std::move(curve);
  }
  if (averages > train)
    proposal.peak = averagesOfStates.str();
  return fits(proposal) ? Choice::Fits : Choice::Exceeds;
}

/// Returns the input of the offload planner for a module whose ops are in
/// dispatches, but which has no copies yet (PipelinePoint::Formed).
FailureOr<OffloadModel>
ProposalMeasurer::modelOf(OwningOpRef<ModuleOp> dispatched,
                          bool describesStates) {
  if (failed(runPasses(*dispatched, PipelinePoint::Formed,
                       PipelinePoint::Dispatched)))
    return failure();
  return OffloadModel::build(*dispatched, request.maxThreads, machine,
                             describesStates);
}

/// Returns true if a proposal is to be abandoned, because it is estimated to be
/// slower than the fastest plan. The threshold allows for the error of the
/// estimate, a few per cent.
bool ProposalMeasurer::abandons(double seconds) {
  if (seconds <= kPruneRatio * fastest)
    return false;
  skipsSome |= hasLimit() && fastest == limit;
  return true;
}

Result<OffloadModel> ProposalMeasurer::describe(const Proposal &proposal) {
  auto formed = form(proposal, /*isOffloaded=*/false);
  if (!formed.ok())
    return formed.status();
  auto model = modelOf(std::move(*formed), /*describesStates=*/true);
  if (failed(model))
    return Status::error(
        "internal error: the commands of a plan could not be described");
  return std::move(*model);
}

/// Returns the goal of the search for offsets. For a large program with states
/// on the host, minimizing the arena takes long and has no use: the states are
/// chosen so that they use the whole budget.
ArenaGoal ProposalMeasurer::goalOf(const Proposal &proposal) const {
  return isLarge() && !offloadsMost && proposal.states && proposal.states->any()
             ? ArenaGoal::Fit
             : ArenaGoal::Least;
}

/// Returns false if the program exceeds the budget even with the solution that
/// uses the least device memory.
bool ProposalMeasurer::canFit(const OffloadModel &model) const {
  OffloadProblem problem = model.problem;
  problem.capacity = -model.stateBytes;
  return planOffload(problem).excess <= request.budget;
}

/// Chooses the values to offload so that the proposal fits. If fragmentation
/// makes the arena exceed the budget, reduces the capacity by the excess and
/// chooses again. `fragmentation` is the total of the reductions that a similar
/// program needed, or 0. If this program is scheduled, `fragmentation` is set
/// to the total of its own reductions. With `estimates`, only estimates the
/// step time.
Result<Choice> ProposalMeasurer::chooseOffload(ModuleOp dispatched,
                                               Proposal &proposal,
                                               int64_t &fragmentation,
                                               bool estimates) {
  auto model = modelOf(cast<ModuleOp>(dispatched->clone()),
                       /*describesStates=*/false);
  if (failed(model))
    return Status::error(
        "internal error: the values to offload in a plan could not be chosen");
  OffloadProblem &problem = model->problem;
  problem.hostCapacity = request.hostBudget - model->hostBytes;
  problem.capacity = request.budget - model->stateBytes;
  auto tryIt = [&](const OffloadSolution &solution) {
    proposal.offload = model->choicesOf(solution);
    OwningOpRef<ModuleOp> marked = cast<ModuleOp>(dispatched->clone());
    markNumbered(*marked, proposal.offload);
    return schedule(*marked, proposal, goalOf(proposal));
  };
  bool placed = proposal.states && proposal.states->any() && !offloadsMost;
  int rounds = placed ? kOffloadRoundsBesideStates : kOffloadRounds;
  int64_t reserved = 0;
  for (int round = 0; !offloadsMost && round < rounds; ++round) {
    OffloadSolution solution = planOffload(problem);
    if (solution.fits() && abandons(solution.seconds))
      return Choice::Abandoned;
    if (round == 0 && fragmentation > 0) {
      // The arena will probably be as fragmented as that of the similar program
      // from which `fragmentation` comes.
      OffloadProblem smaller = problem;
      smaller.capacity -= fragmentation;
      OffloadSolution reserving = planOffload(smaller);
      if (reserving.fits() &&
          reserving.seconds <=
              solution.seconds + kReserveCost * proposal.seconds) {
        solution = std::move(reserving);
        problem.capacity = smaller.capacity;
        reserved = fragmentation;
      }
    }
    if (placed && !solution.fits()) {
      if (round == 0)
        proposal.height = request.budget + solution.excess;
      return Choice::Exceeds;
    }
    if (keepsStates && round == 0 && !solution.fits() && !canFit(*model)) {
      proposal.isHopeless = true;
      return Choice::Exceeds;
    }
    proposal.seconds = solution.seconds;
    if (estimates)
      return Choice::Fits;
    auto choice = tryIt(solution);
    if (!choice.ok() || *choice == Choice::Fits)
      return choice;
    if (!solution.fits())
      break;
    int64_t excess = std::max<int64_t>(0, proposal.height - request.budget);
    problem.capacity -= excess;
    fragmentation = reserved += excess;
    problem.hostCapacity -=
        std::max<int64_t>(0, proposal.hostHeight - request.hostBudget);
  }
  if (placed)
    return Choice::Exceeds;
  // Try the solution that uses the least device memory. Its arena may fit even
  // if the arenas of all other solutions exceed the budget.
  problem.capacity = -model->stateBytes;
  return tryIt(planOffload(problem));
}

void kiln::calibrate(StageMenus &menus, const LiveCurve &curve) {
  int32_t stages = menus.chain.size();
  auto total = static_cast<int64_t>(curve.heavy.size());
  if (total != std::accumulate(menus.forwardHeavy.begin(),
                               menus.forwardHeavy.end(), int64_t(0)) +
                   std::accumulate(menus.backwardHeavy.begin(),
                                   menus.backwardHeavy.end(), int64_t(0)))
    return;
  std::vector<int64_t> forward(stages, -1), backward(stages, -1);
  int64_t marker = 0;
  auto follow = [&](int64_t heavy) -> int64_t {
    if (heavy == 0)
      return -1;
    int64_t begin = marker == 0 ? 0 : curve.heavy[marker];
    marker += heavy;
    int64_t end = marker == total ? static_cast<int64_t>(curve.live.size())
                                  : curve.heavy[marker];
    return *std::max_element(curve.live.begin() + begin,
                             curve.live.begin() + end);
  };
  for (int32_t k = 0; k < stages; ++k)
    forward[k] = follow(menus.forwardHeavy[k]);
  for (int32_t k = stages - 1; k >= 0; --k)
    backward[k] = follow(menus.backwardHeavy[k]);
  menus.calibrate(forward, backward);
}
