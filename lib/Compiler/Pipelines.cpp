//===- Pipelines.cpp - Pipelines from a model to its schedule ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Compiler/Pipelines.h"

#include "kiln/Conversion/KilnToKilnRT/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/Optimizer.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/StateTypes.h"
#include "kiln/Support/GradientCompression.h"
#include "kiln/Support/Mesh.h"
#include "kiln/Support/Messages.h"
#include "kiln/Target/Common/Passes.h"

#include "mlir/Pass/PassRegistry.h"
#include "mlir/Transforms/Passes.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSwitch.h"

#include <charconv>

using namespace mlir;
using namespace kiln;

/// Adds the pass that verifies the invariants of a level.
static void addLevelCheck(OpPassManager &passes, StringRef level) {
  VerifyLevelOptions options;
  options.level = level.str();
  passes.addPass(createVerifyLevel(options));
}

static void addForwardPasses(OpPassManager &passes, const PipelineOptions &) {
  addLevelCheck(passes, "forward");
}

/// Returns the number of data-parallel ranks. Ignores an invalid mesh, which
/// the pass kiln-build-step reports.
static int64_t dataRanks(const StepOptions &options) {
  auto mesh = support::parseMesh(options.mesh.getValue());
  return mesh.ok() ? mesh->sizeOf(support::dataAxis) : 1;
}

/// Returns the types of states. Ignores invalid options, which the pass
/// kiln-build-step reports.
static StateTypes stateTypes(const StepOptions &options) {
  std::string error;
  auto optimizer = OptimizerSpec::parse(options.optimizer, error);
  if (!optimizer)
    return {};
  return StateTypes::parse(options.states, *optimizer->rule, error)
      .value_or(StateTypes());
}

static void addStepPasses(OpPassManager &passes, const PipelineOptions &all) {
  const StepOptions &options = all.step;
  // Run AddLora first, so that all other passes see ordinary matmuls and frozen
  // states.
  if (!options.lora.empty()) {
    AddLoraOptions lora;
    lora.lora = options.lora;
    passes.addPass(createAddLora(lora));
  }
  SetPrecisionOptions precision;
  precision.precision = options.precision;
  // Merge equal reads and subexpressions before they are differentiated.
  passes.addPass(createCanonicalizerPass());
  passes.addPass(createCSEPass());
  PartitionLayersOptions partition;
  partition.mesh = options.mesh;
  passes.addPass(createPartitionLayers(partition));
  passes.addPass(createSetPrecision(precision));
  passes.addPass(createNarrowFrozenStates());
  if (!options.quantizeWeights.empty()) {
    QuantizeWeightsOptions quantize;
    quantize.encoding = options.quantizeWeights;
    passes.addPass(createQuantizeWeights(quantize));
  }
  AutodiffOptions autodiff;
  // The losses of all micro-batches add up. The losses of different ranks add
  // up, too, unless each rank takes local steps with a loss of its own.
  autodiff.microbatches =
      options.microbatches * (options.syncEvery > 1 ? 1 : dataRanks(options));
  // The gradients of f16 activations would underflow without a scale.
  autodiff.scaleGradients = options.precision == "fp16";
  autodiff.divideRows = options.sequenceParallel;
  passes.addPass(createAutodiff(autodiff));
  StateTypes types = stateTypes(options);
  if (types.gradients.value_or(ElementType::F32) != ElementType::F32) {
    NarrowGradientsOptions narrow;
    narrow.type = std::string(support::infoOf(*types.gradients).name);
    passes.addPass(createNarrowGradients(narrow));
  }
  passes.addPass(createWidenGradients());
  // Run these passes before BuildStep. RebuildActivations moves weight
  // gradients after other ops of the backward pass; BuildStep adds users of the
  // weight gradients, and a value cannot be moved after its users. Run
  // CompressResiduals before RebuildActivations, so that no op is added to
  // recompute a value that is compressed.
  CompressResidualsOptions compress;
  compress.lossy = options.lossy;
  compress.rebuild = options.rebuild;
  passes.addPass(createCompressResiduals(compress));
  if (options.rebuild) {
    if (options.sequenceParallel)
      passes.addPass(createGatherAgain());
    passes.addPass(createRebuildActivations());
  }
  // Run after RebuildActivations, so that values which can be recomputed from
  // residuals are recomputed from the decoded residuals instead of being
  // stored.
  if (!options.lossy.empty()) {
    QuantizeResidualsOptions quantize;
    quantize.lossy = options.lossy;
    passes.addPass(createQuantizeResiduals(quantize));
  }
  BuildStepOptions step;
  step.optimizer = options.optimizer;
  step.states = options.states;
  step.clip = options.clip;
  step.microbatches = options.microbatches;
  step.order = options.order;
  step.keepGradients = options.keepGradients;
  step.mesh = options.mesh;
  step.zero = options.zero;
  step.zeroBy = options.zeroBy;
  step.syncEvery = options.syncEvery;
  step.bucketBytes = options.bucketBytes;
  step.wholeGradients = !options.compressGradients.empty();
  passes.addPass(createBuildStep(step));
  // If the option is invalid, compress nothing.
  if (auto compression = support::parseGradientCompression(
          options.compressGradients.getValue());
      compression.ok() && compression->any()) {
    CompressGradientsOptions compress;
    compress.scheme = options.compressGradients;
    passes.addPass(createCompressGradients(compress));
  }
  // Run BuildEvaluation after autodiff, because BuildEvaluation erases the
  // forward program that autodiff reads.
  BuildEvaluationOptions evaluation;
  evaluation.evaluation = options.evaluation;
  evaluation.divideRows = options.sequenceParallel;
  passes.addPass(createBuildEvaluation(evaluation));
  // A master copy is read only by its update. From stage 1 of ZeRO on, each
  // rank therefore needs only its own shard of the master copy.
  if (options.zero >= 3 || (options.zero > 0 && types.parameters)) {
    // If there are working copies (narrow copies of the parameters, which
    // AddWorkingCopies adds below), programs read the copies instead of casting
    // parameters. The shards of parameters then need no cast.
    ShardParametersOptions shard;
    shard.castShards = !types.parameters;
    passes.addPass(createShardParameters(shard));
  }
  if (types.parameters) {
    AddWorkingCopiesOptions copies;
    copies.gather = options.zero < 3;
    copies.bucketBytes = options.bucketBytes;
    copies.type = std::string(support::infoOf(*types.parameters).name);
    passes.addPass(createAddWorkingCopies(copies));
  }
  if (options.syncEvery > 1) {
    BuildSyncOptions sync;
    sync.syncEvery = options.syncEvery;
    sync.bucketBytes = options.bucketBytes;
    passes.addPass(createBuildSync(sync));
  }
  passes.addPass(createCanonicalizerPass());
  addLevelCheck(passes, "step");
}

Result<OffloadSet> OffloadSet::parse(StringRef list) {
  OffloadSet set;
  if (list == "none")
    return set;
  auto refuse = [&](StringRef part, const Twine &expected) {
    return Status(ExitCode::Usage, "lists " +
                                       support::inQuotes(part.str(), 40) +
                                       ", expected " + expected.str());
  };
  SmallVector<StringRef> parts;
  list.split(parts, ',');
  for (StringRef part : parts) {
    auto [name, text] = part.split(':');
    double *share = llvm::StringSwitch<double *>(name)
                        .Case("optimizer", &set.shares.optimizer)
                        .Case("moments", &set.shares.moments)
                        .Case("parameters", &set.shares.parameters)
                        .Default(nullptr);
    if (name == "activations" ? set.activations : !share || *share > 0)
      return refuse(part,
                    "none, auto, or some of activations, optimizer, "
                    "moments, parameters, each once, separated by commas");
    if (!share) {
      if (part != name)
        return refuse(part, "'activations' without a share: to offload only "
                            "some of the activations, pass "
                            "--memory-budget=SIZE");
      set.activations = true;
      continue;
    }
    *share = 1;
    if (part != name &&
        (text.getAsDouble(*share) || !(*share > 0 && *share <= 1)))
      return refuse(part,
                    "a share above 0 and at most 1, as in " + name + ":0.3");
  }
  if (set.shares.optimizer + set.shares.moments > 1)
    return refuse(list,
                  "shares of optimizer and moments that sum to at most 1, "
                  "since an update runs either on the host or on the device");
  return set;
}

/// Returns the shortest decimal number that is parsed as exactly `share`.
static std::string shareText(double share) {
  char digits[32];
  return {digits, std::to_chars(digits, digits + sizeof digits, share).ptr};
}

std::string OffloadSet::print() const {
  SmallVector<std::string> parts;
  if (activations)
    parts.push_back("activations");
  for (auto [share, name] : {std::pair(shares.optimizer, "optimizer"),
                             std::pair(shares.moments, "moments"),
                             std::pair(shares.parameters, "parameters")})
    if (share > 0)
      parts.push_back(name + (share < 1 ? ":" + shareText(share) : ""));
  return parts.empty() ? "none" : llvm::join(parts, ",");
}

static void addPlanner(OpPassManager &passes, const PipelineOptions &all,
                       bool offloadActivations, bool offloadStates) {
  PlanMemoryOptions options;
  options.budget = all.plan.budget;
  if (all.plan.hostBudget)
    options.hostBudget = all.plan.hostBudget;
  options.machine = all.plan.machine;
  options.link = all.plan.link;
  if (!all.plan.recompute.empty())
    options.policy = all.plan.recompute;
  options.offloadActivations = offloadActivations;
  options.offloadStates = offloadStates;
  options.fuse = all.dispatch.fuse;
  options.epilogues = all.dispatch.epilogues;
  options.maxThreads = all.plan.maxThreads;
  options.suggestMicrobatches = all.plan.suggestMicrobatches;
  passes.addPass(all.session ? createPlanMemory(options, *all.session)
                             : createPlanMemory(options));
}

static void addPlanPasses(OpPassManager &passes, const PipelineOptions &all) {
  const PlanOptions &options = all.plan;
  // Split the loss into chunks before SetNumerics, because SetNumerics must
  // also process the matmuls of the chunks.
  ExpandLossOptions loss;
  loss.logits = options.logits;
  passes.addPass(createExpandLoss(loss));
  SetNumericsOptions numerics;
  numerics.maxThreads = options.maxThreads;
  llvm::append_range(numerics.gemmKernels, options.gemmKernels);
  passes.addPass(createSetNumerics(numerics));
  passes.addPass(createCanonicalizerPass());
  bool isFree = options.offload == "auto";
  // If the list is invalid, offload nothing.
  Result<OffloadSet> parsed = OffloadSet::parse(options.offload);
  OffloadSet offload = parsed.ok() ? *parsed : OffloadSet();
  OffloadStatesOptions states;
  states.optimizer = offload.shares.optimizer;
  states.moments = offload.shares.moments;
  states.parameters = offload.shares.parameters;
  passes.addPass(createOffloadStates(states));
  // With a budget, the planner chooses which values are recomputed, which
  // activations are offloaded, and when the activations are copied.
  if (options.budget) {
    addPlanner(passes, all, offload.activations || isFree, isFree);
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
  passes.addPass(createDivideMicrobatches());
  addLevelCheck(passes, "dispatched");
}

static void addSchedulePasses(OpPassManager &passes,
                              const PipelineOptions &all) {
  ScheduleOptions schedule;
  schedule.maxThreads = all.schedule.maxThreads;
  passes.addPass(createSchedule(schedule));
}

/// Adds the passes that form launch groups (launches that run as one). Grouping
/// moves no buffers, so these passes do not change the arena.
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

/// Registers a pipeline with the options of one level.
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
