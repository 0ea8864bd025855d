//===- Pipelines.cpp - From a model to its schedule -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Compiler/Pipelines.h"

#include "kiln/Conversion/KilnToKilnRT/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Target/Common/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace kiln;

/// Ends a level with the check of its invariant.
static void addLevelCheck(OpPassManager &passes, StringRef level) {
  VerifyLevelOptions options;
  options.level = level.str();
  passes.addPass(createVerifyLevel(options));
}

static void addForwardPasses(OpPassManager &passes, const PipelineOptions &) {
  addLevelCheck(passes, "forward");
}

static void addStepPasses(OpPassManager &passes, const PipelineOptions &all) {
  const StepOptions &options = all.step;
  SetPrecisionOptions precision;
  precision.precision = options.precision;
  // Equal reads and subexpressions become one before they are differentiated.
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  passes.addPass(createSetPrecision(precision));
  AutodiffOptions autodiff;
  autodiff.microbatches = options.microbatches;
  passes.addPass(createAutodiff(autodiff));
  passes.addPass(createWidenGradients());
  // Before the step, while weight gradients have no user that pins them; first
  // what then need not be rebuilt.
  CompressResidualsOptions compress;
  compress.lossy = options.lossy;
  compress.rebuild = options.rebuild;
  passes.addPass(createCompressResiduals(compress));
  if (options.rebuild)
    passes.addPass(createRebuildActivations());
  BuildStepOptions step;
  step.optimizer = options.optimizer;
  step.clip = options.clip;
  step.microbatches = options.microbatches;
  step.keepGradients = options.keepGradients;
  passes.addPass(createBuildStep(step));
  // Last, because it erases the forward program that autodiff read.
  BuildEvaluationOptions evaluation;
  evaluation.evaluation = options.evaluation;
  passes.addPass(createBuildEvaluation(evaluation));
  passes.addPass(createCanonicalizerPass());
  addLevelCheck(passes, "step");
}

std::optional<OffloadSet> OffloadSet::parse(StringRef list) {
  OffloadSet set;
  if (list == "none")
    return set;
  SmallVector<StringRef> names;
  list.split(names, ',');
  for (StringRef name : names) {
    bool *known = llvm::StringSwitch<bool *>(name)
                      .Case("activations", &set.activations)
                      .Case("optimizer", &set.optimizer)
                      .Case("parameters", &set.parameters)
                      .Default(nullptr);
    if (!known || *known)
      return std::nullopt;
    *known = true;
  }
  return set;
}

std::string OffloadSet::print() const {
  std::string list;
  for (auto [chosen, name] :
       {std::pair(activations, "activations"),
        std::pair(optimizer, "optimizer"), std::pair(parameters, "parameters")})
    if (chosen)
      list += (list.empty() ? "" : ",") + std::string(name);
  return list.empty() ? "none" : list;
}

static void addPlanner(OpPassManager &passes, const PipelineOptions &all,
                       bool offloadActivations) {
  PlanMemoryOptions options;
  options.budget = all.plan.budget;
  if (all.plan.hostBudget)
    options.hostBudget = all.plan.hostBudget;
  options.machine = all.plan.machine;
  options.link = all.plan.link;
  if (!all.plan.recompute.empty())
    options.policy = all.plan.recompute;
  options.offloadActivations = offloadActivations;
  options.fuse = all.dispatch.fuse;
  options.epilogues = all.dispatch.epilogues;
  options.maxThreads = all.plan.maxThreads;
  options.suggestMicrobatches = all.plan.suggestMicrobatches;
  passes.addPass(all.session ? createPlanMemory(options, *all.session)
                             : createPlanMemory(options));
}

static void addPlanPasses(OpPassManager &passes, const PipelineOptions &all) {
  const PlanOptions &options = all.plan;
  // The chunks' products exist before grids are chosen for all products.
  ExpandLossOptions loss;
  loss.logits = options.logits;
  passes.addPass(createExpandLoss(loss));
  SetNumericsOptions numerics;
  numerics.maxThreads = options.maxThreads;
  passes.addPass(createSetNumerics(numerics));
  passes.addPass(createCanonicalizerPass());
  // A list that nobody checked before stands for nothing.
  OffloadSet offload =
      OffloadSet::parse(options.offload).value_or(OffloadSet());
  OffloadStatesOptions states;
  states.optimizer = offload.optimizer;
  states.parameters = offload.parameters;
  passes.addPass(createOffloadStates(states));
  // With a budget the planner says what is repeated, and which activations go
  // to the host and when.
  if (options.budget) {
    addPlanner(passes, all, offload.activations);
  } else {
    RecomputeOptions recompute;
    if (!options.recompute.empty())
      recompute.policy = options.recompute;
    passes.addPass(createRecompute(recompute));
    if (offload.activations)
      passes.addPass(createOffloadActivations());
  }
  addLevelCheck(passes, "planned");
}

static void addFormPasses(OpPassManager &passes, const PipelineOptions &all) {
  FormDispatchesOptions form;
  form.fuse = all.dispatch.fuse;
  form.epilogues = all.dispatch.epilogues;
  passes.addPass(createFormDispatches(form));
}

static void addCopyPasses(OpPassManager &passes, const PipelineOptions &) {
  passes.addPass(createPlaceCopies());
  addLevelCheck(passes, "dispatched");
}

static void addSchedulePasses(OpPassManager &passes,
                              const PipelineOptions &all) {
  ScheduleOptions schedule;
  schedule.maxThreads = all.schedule.maxThreads;
  passes.addPass(createSchedule(schedule));
}

/// A group moves no buffer, so the arena is complete before.
static void addGroupPasses(OpPassManager &passes, const PipelineOptions &) {
  passes.addPass(createGroupLaunches());
}

void kiln::buildPipeline(OpPassManager &passes, const PipelineOptions &options,
                         PipelinePoint from, PipelinePoint to) {
  using Add = void (*)(OpPassManager &, const PipelineOptions &);
  static constexpr std::pair<PipelinePoint, Add> parts[] = {
      {PipelinePoint::Forward, addForwardPasses},
      {PipelinePoint::Step, addStepPasses},
      {PipelinePoint::Planned, addPlanPasses},
      {PipelinePoint::Formed, addFormPasses},
      {PipelinePoint::Dispatched, addCopyPasses},
      {PipelinePoint::Scheduled, addSchedulePasses},
      {PipelinePoint::Grouped, addGroupPasses}};
  for (auto [point, add] : parts)
    if (from < point && point <= to)
      add(passes, options);
}

/// Registers a pipeline that has the options of its own level alone.
template <typename Options>
static void registerPipeline(StringRef name, StringRef description,
                             Options PipelineOptions::*part, PipelinePoint from,
                             PipelinePoint to) {
  PassPipelineRegistration<Options>(
      name, description, [=](OpPassManager &passes, const Options &options) {
        PipelineOptions all;
        (all.*part).copyOptionValuesFrom(options);
        buildPipeline(passes, all, from, to);
      });
}

void kiln::registerPipelines() {
  registerPipeline("kiln-to-step-pipeline", "forward to step",
                   &PipelineOptions::step, PipelinePoint::Forward,
                   PipelinePoint::Step);
  registerPipeline("kiln-to-planned-pipeline", "step to planned",
                   &PipelineOptions::plan, PipelinePoint::Step,
                   PipelinePoint::Planned);
  registerPipeline("kiln-to-dispatched-pipeline", "planned to dispatched",
                   &PipelineOptions::dispatch, PipelinePoint::Planned,
                   PipelinePoint::Dispatched);
  registerPipeline("kiln-to-scheduled-pipeline",
                   "dispatched to scheduled, with launch groups",
                   &PipelineOptions::schedule, PipelinePoint::Dispatched,
                   PipelinePoint::Grouped);
}
