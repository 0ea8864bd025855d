//===- Pipelines.cpp - The named pipelines, one per level -------*- C++ -*-===//
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

void kiln::buildForwardPipeline(OpPassManager &passes) {
  addLevelCheck(passes, "forward");
}

void kiln::buildStepPipeline(OpPassManager &passes,
                             const StepOptions &options) {
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

void kiln::buildPlanPipeline(OpPassManager &passes,
                             const PlanOptions &options) {
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
  RecomputeOptions recompute;
  recompute.policy = options.recompute;
  passes.addPass(createRecompute(recompute));
  if (offload.activations)
    passes.addPass(createOffloadActivations());
  addLevelCheck(passes, "planned");
}

void kiln::buildDispatchPipeline(OpPassManager &passes,
                                 const DispatchOptions &options) {
  FormDispatchesOptions form;
  form.fuse = options.fuse;
  form.epilogues = options.epilogues;
  passes.addPass(createFormDispatches(form));
  passes.addPass(createPlaceCopies());
  addLevelCheck(passes, "dispatched");
}

void kiln::buildSchedulePipeline(OpPassManager &passes,
                                 const PlanOptions &options) {
  ScheduleOptions schedule;
  schedule.maxThreads = options.maxThreads;
  passes.addPass(createSchedule(schedule));
  // A group does not move a buffer, so the arena is complete by now.
  passes.addPass(createGroupLaunches());
}

void kiln::registerPipelines() {
  PassPipelineRegistration<StepOptions>("kiln-to-step-pipeline",
                                        "forward to step", buildStepPipeline);
  PassPipelineRegistration<PlanOptions>("kiln-to-planned-pipeline",
                                        "step to planned", buildPlanPipeline);
  PassPipelineRegistration<DispatchOptions>("kiln-to-dispatched-pipeline",
                                            "planned to dispatched",
                                            buildDispatchPipeline);
  PassPipelineRegistration<PlanOptions>("kiln-to-scheduled-pipeline",
                                        "dispatched to scheduled",
                                        buildSchedulePipeline);
}
