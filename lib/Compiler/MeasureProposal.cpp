//===- MeasureProposal.cpp - Measurement of a plan proposal -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Applies a proposal to a copy of the module, and dispatches and schedules the
// copy with the passes of the pipeline. Launch groups are not formed, because
// groups move no buffers and the cost model prices each launch separately.
//
//===----------------------------------------------------------------------===//

#include "Planning.h"

#include "StepCost.h"

#include "kiln/Dialect/Kiln/Transforms/Offload.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/StateResidency.h"

#include "mlir/Pass/PassManager.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace kiln;

/// Maximum number of offload plans that are tried for a proposal. If
/// fragmentation makes the arena of a plan exceed the budget, the next plan is
/// made for a smaller capacity.
static constexpr int kOffloadRounds = 6;

/// Returns the live bytes and the positions of the heavy ops of a scheduled
/// program.
static LiveCurve followProgram(rt::ProgramOp program) {
  SmallVector<Operation *> commands = rt::commandsOf(program);
  LiveCurve curve;
  curve.live = rt::liveBytes(program, MemorySpace::Device,
                             /*oneInFlight=*/true);
  auto module = program->getParentOfType<ModuleOp>();
  SymbolTable symbols(module);
  for (auto [i, op] : llvm::enumerate(commands)) {
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

void kiln::markReads(ModuleOp module, const Proposal &proposal) {
  if (!proposal.lead && proposal.kept.empty())
    return;
  Builder builder(module.getContext());
  for (ProgramOp program : module.getOps<ProgramOp>())
    for (ReadOp read : readsAcross(program)) {
      if (proposal.lead)
        read->setAttr(kPrefetchAttr,
                      builder.getDenseI64ArrayAttr(*proposal.lead));
      if (program.getKind() == ProgramKind::Train &&
          llvm::is_contained(proposal.kept, read.getStateAttr().getAttr()))
        read->setAttr(kKeepAttr, builder.getUnitAttr());
    }
}

MemoryPlanner::MemoryPlanner(ModuleOp module, const Machine &machine,
                             const PlanMemoryOptions &request)
    : module(module), machine(machine), request(request) {
  pipeline.dispatch.fuse = request.fuse;
  pipeline.dispatch.epilogues = request.epilogues;
  pipeline.schedule.maxThreads = request.maxThreads;
}

LogicalResult MemoryPlanner::runPasses(ModuleOp trial, PipelinePoint from,
                                       PipelinePoint to) {
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
            marks.lookup(update.parameter.getSymNameAttr()))
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
/// offloading of activations, and with the ops in dispatches. Copies are not
/// placed yet, because the values to offload are not yet chosen. If
/// `isOffloaded` is true, the ops of the forward pass are numbered.
Result<OwningOpRef<ModuleOp>> MemoryPlanner::form(const Proposal &proposal,
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
  markReads(*copy, proposal);
  train.walk([](RecomputeOp repeated) { dropNumbers(repeated); });
  if (failed(runPasses(*copy, PipelinePoint::Planned, PipelinePoint::Formed)))
    return Status::error(
        "internal error: the dispatches of a plan could not be formed");
  return copy;
}

/// Measures a proposal. If `keepsAll` is false and offloading is allowed, also
/// chooses what is offloaded.
Status MemoryPlanner::measure(Proposal &proposal, bool keepsAll,
                              LiveCurve *liveCurve) {
  bool choosesStates = !keepsAll && placesStates() && !proposal.states;
  bool offloads = !keepsAll && (request.offloadActivations || offloadsMost);
  auto formed = form(proposal, choosesStates || offloads);
  if (!formed.ok())
    return formed.status();
  if (choosesStates)
    return chooseStates(**formed, proposal);
  return offloads ? chooseOffload(**formed, proposal)
                  : schedule(**formed, proposal, liveCurve);
}

Status MemoryPlanner::schedule(ModuleOp dispatched, Proposal &proposal,
                               LiveCurve *liveCurve) {
  if (failed(runPasses(dispatched, PipelinePoint::Formed,
                       PipelinePoint::Scheduled)))
    return Status::error("internal error: a plan could not be scheduled");
  rt::ArenaOp arena = *dispatched.getOps<rt::ArenaOp>().begin();
  proposal.height = arena.getHeight();
  proposal.hostHeight = arena.getHostHeight();
  for (rt::ProgramOp program : dispatched.getOps<rt::ProgramOp>())
    if (program.getKind() == ProgramKind::Train) {
      proposal.seconds = programSeconds(program, machine);
      LiveCurve curve = followProgram(program);
      proposal.peak = curve.peak;
      if (liveCurve)
        *liveCurve = std::move(curve);
    }
  return Status();
}

/// Returns the input of the offload planner for a module with formed
/// dispatches.
FailureOr<OffloadModel> MemoryPlanner::modelOf(ModuleOp dispatched,
                                               bool describesStates) {
  OwningOpRef<ModuleOp> trial = cast<ModuleOp>(dispatched->clone());
  if (failed(
          runPasses(*trial, PipelinePoint::Formed, PipelinePoint::Dispatched)))
    return failure();
  return OffloadModel::build(*trial, request.maxThreads, machine,
                             describesStates);
}

/// Abandons the proposal, and returns true, if it is estimated to be slower
/// than the fastest plan. The threshold allows for the error of the estimate, a
/// few per cent.
bool MemoryPlanner::abandons(double seconds, Proposal &proposal) {
  if (seconds <= kPruneRatio * fastest)
    return false;
  skipsSome |= hasLimit() && fastest == limit;
  proposal.height = std::numeric_limits<int64_t>::max();
  return true;
}

/// Returns the problem of the states, without the bytes of the activations that
/// can be offloaded.
static StateProblem withoutActivations(const OffloadModel &model) {
  StateProblem problem = model.states->problem;
  for (const OffloadItem &item : model.problem.items)
    for (int32_t c = item.left + 1; c < item.back; ++c)
      problem.live[c] -= item.bytes;
  return problem;
}

/// Chooses the states that are stored on the host so that the proposal fits. If
/// the arena exceeds the budget although the solution does not, reduces the
/// capacity by the excess and chooses again. If that is not sufficient, also
/// offloads activations.
Status MemoryPlanner::chooseStates(ModuleOp dispatched, Proposal &proposal,
                                   bool refines) {
  auto model = modelOf(dispatched, /*describesStates=*/true);
  if (failed(model) || !model->states)
    return Status::error("internal error: the states that a plan stores on the "
                         "host could not be chosen");
  StateProblem &problem = model->states->problem;
  problem.capacity = request.budget;
  problem.hostCapacity = request.hostBudget;
  if (offloadsMost) {
    proposal.states = allOnHost(*model->states);
    auto formed = form(proposal, /*isOffloaded=*/true);
    return formed.ok() ? chooseOffload(**formed, proposal) : formed.status();
  }
  // Without activations, the program needs less memory than it will have.
  StateProblem least = withoutActivations(*model);
  bool offloads = false;
  for (int round = 0; round < kOffloadRounds; ++round) {
    bool isLocal = lastShares && !(refines && round == 0);
    auto solve = [&](const StateProblem &one) {
      return isLocal ? planStates(one, lastShares) : planStates(one);
    };
    StateSolution solution = solve(offloads ? least : problem);
    if (!offloads && !solution.fits && request.offloadActivations) {
      offloads = true;
      solution = solve(least);
    }
    if (!solution.fits && round > 0)
      return Status();
    if (solution.fits)
      lastShares = solution.shares;
    if (refines)
      solution =
          kiln::refineStates(offloads ? least : problem, std::move(solution));
    if (solution.fits && abandons(solution.cost.seconds, proposal))
      return Status();
    proposal.states = model->states->marksOf(solution);
    auto formed = form(proposal, offloads);
    if (!formed.ok())
      return formed.status();
    Status status = offloads ? chooseOffload(**formed, proposal)
                             : schedule(**formed, proposal);
    if (!status.ok())
      return status;
    if (fits(proposal)) {
      fastest = std::min(fastest, proposal.seconds);
      return Status();
    }
    // Stop if the proposal was abandoned.
    if (proposal.height == std::numeric_limits<int64_t>::max())
      return Status();
    for (StateProblem *one : {&problem, &least}) {
      one->capacity -= std::max<int64_t>(0, proposal.height - request.budget);
      one->hostCapacity -=
          std::max<int64_t>(0, proposal.hostHeight - request.hostBudget);
    }
  }
  return Status();
}

/// Chooses the values to offload so that the proposal fits. If fragmentation
/// makes the arena exceed the budget, reduces the capacity by the excess and
/// chooses again.
Status MemoryPlanner::chooseOffload(ModuleOp dispatched, Proposal &proposal) {
  auto model = modelOf(dispatched, /*describesStates=*/false);
  if (failed(model))
    return Status::error(
        "internal error: the values to offload in a plan could not be chosen");
  OffloadProblem &problem = model->problem;
  problem.hostCapacity = request.hostBudget - model->hostBytes;
  problem.capacity = request.budget - model->stateBytes;
  auto tryIt = [&](const OffloadSolution &solution) -> Status {
    proposal.offload = model->choicesOf(solution);
    OwningOpRef<ModuleOp> marked = cast<ModuleOp>(dispatched->clone());
    markNumbered(*marked, proposal.offload);
    return schedule(*marked, proposal);
  };
  for (int round = 0; !offloadsMost && round < kOffloadRounds; ++round) {
    OffloadSolution solution = planOffload(problem);
    if (solution.fits() && abandons(solution.seconds, proposal))
      return Status();
    if (Status status = tryIt(solution); !status.ok())
      return status;
    if (fits(proposal) || !solution.fits())
      break;
    problem.capacity -= std::max<int64_t>(0, proposal.height - request.budget);
    problem.hostCapacity -=
        std::max<int64_t>(0, proposal.hostHeight - request.hostBudget);
  }
  // Try the solution that uses the least device memory. Its arena may fit even
  // if the arenas of all other solutions exceed the budget.
  if (offloadsMost || !fits(proposal)) {
    problem.capacity = -model->stateBytes;
    if (Status status = tryIt(planOffload(problem)); !status.ok())
      return status;
  }
  if (fits(proposal))
    fastest = std::min(fastest, proposal.seconds);
  return Status();
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
