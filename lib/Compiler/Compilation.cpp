//===- Compilation.cpp - One compilation of a model -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compilation.h"

#include "Link.h"
#include "MemoryPlanner.h"
#include "PlanRemarks.h"
#include "StepCost.h"
#include "WriteOutput.h"

#include "kiln/Abi/SegmentOrder.h"
#include "kiln/Compiler/Pipelines.h"
#include "kiln/Compiler/Registration.h"
#include "kiln/Dialect/Kiln/IR/AttentionLibrary.h"
#include "kiln/Dialect/Kiln/IR/KilnVendor.h"
#include "kiln/Dialect/Kiln/IR/SourceCheck.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Dialect/Kiln/Transforms/Lossy.h"
#include "kiln/Dialect/Kiln/Transforms/Optimizer.h"
#include "kiln/Dialect/Kiln/Transforms/StateTypes.h"
#include "kiln/Import/HuggingFace.h"
#include "kiln/Report/PlanReport.h"
#include "kiln/Support/GradientCompression.h"
#include "kiln/Support/LoraConfig.h"
#include "kiln/Support/Mesh.h"
#include "kiln/Support/WeightEncoding.h"
#include "kiln/Support/ZeroBy.h"
#include "kiln/Target/Cpu/CodeGen.h"
#include "kiln/Target/Interface/CodeGenerator.h"
#include "kiln/Target/Interface/TargetRegistry.h"

#include "mlir/Pass/PassManager.h"

#include <charconv>

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

DialectRegistry Compilation::makeRegistry() {
  DialectRegistry registry;
  kiln::registerAllDialects(registry);
  return registry;
}

Status Compilation::findBackend() {
  auto found = findTarget(context, options.target);
  if (!found.ok())
    return found.status();
  target = *found;
  return Status();
}

/// Returns the names of the targets for which `has` is true, such as "cuda or
/// cuda-emu".
std::string
Compilation::targetsWith(llvm::function_ref<bool(const TargetBackend &)> has) {
  return TargetRegistry::lookup(context)->listNames(has);
}

Status Compilation::checkOptions() {
  auto usage = [](std::string message) {
    return Status(ExitCode::Usage, std::move(message));
  };
  auto order = SegmentOrder::parse(options.order);
  Status legal =
      order.ok() ? order->check(options.microbatches) : order.status();
  if (!legal.ok())
    return usage("--order: " + legal.message());
  if (options.maxThreads < 1 || options.maxThreads > 1024)
    return usage("--max-threads is " + std::to_string(options.maxThreads) +
                 ", expected 1 to 1024");
  if (options.gemm != "auto" && options.gemm != "avx512" &&
      options.gemm != "blas")
    return usage("--gemm is '" + options.gemm +
                 "', expected auto, avx512 or blas");
  auto found = cpu::getProcessor(options.mcpu);
  if (!found)
    return usage("--mcpu: " + llvm::toString(found.takeError()));
  processor = *found;
  if (!options.recompute.empty() &&
      !llvm::is_contained({"none", "full", "blocks", "sqrt", "poor", "optimal"},
                          options.recompute))
    return usage("--recompute is '" + options.recompute +
                 "', expected none, full, blocks, sqrt, poor or optimal");
  if (options.recompute == "optimal" && !options.memoryBudget)
    return usage("--recompute=optimal needs --memory-budget=SIZE, the size "
                 "that the plan must fit");
  if (!options.offload.empty() && options.offload != "auto")
    if (auto set = OffloadSet::parse(options.offload); !set.ok())
      return usage("--offload " + set.status().message());
  if (options.offload == "auto" && !options.memoryBudget)
    return usage("--offload=auto needs --memory-budget=SIZE, the size that the "
                 "plan must fit");
  CodeTraits traits = target->getCodeGenerator().getTraits();
  if (options.stage == EmitStage::Ptx && !traits.ptx)
    return usage("--emit=ptx needs --target=" +
                 targetsWith([](const TargetBackend &other) {
                   return other.getCodeGenerator().getTraits().ptx;
                 }) +
                 ": only GPUs run PTX");
  if (options.stage == EmitStage::Object && traits.images)
    return usage("--emit=obj is not available for --target=" + options.target +
                 ", which does not compile kernels to object files" +
                 (traits.ptx ? ": use --emit=ptx" : ""));
  if (options.precision && *options.precision != "fp32" &&
      *options.precision != "fp64" &&
      !support::lowPrecisionNamed(*options.precision))
    return usage("--precision is '" + *options.precision +
                 "', expected fp32, fp64, bf16 or fp16");
  if (options.dropout && !(*options.dropout >= 0 && *options.dropout < 1))
    return usage("--dropout is " + std::to_string(*options.dropout) +
                 ", expected at least 0 and below 1");
  std::string error;
  auto optimizer = OptimizerSpec::parse(options.optimizer, error);
  if (!optimizer)
    return usage("--optimizer: " + error);
  auto types = StateTypes::parse(options.states, *optimizer->rule, error);
  if (!types)
    return usage("--states " + error);
  // Without --precision, the states of a model are fp32 or fp64, and nothing is
  // cast. The rules are then those for fp32.
  if (error = types->checkPrecision(options.precision.value_or("fp32"));
      !error.empty())
    return usage("--states " + error);
  if (!options.states.empty() && options.precision == "fp64")
    return usage("--states chooses types for states that are computed in f32, "
                 "but --precision=fp64 computes them in f64: leave out one of "
                 "the two flags");
  if (offloadByHand().shares.moments > 0 && optimizer->rule->slots.empty())
    return usage("--offload=moments needs an optimizer with moments, and " +
                 optimizer->rule->name.str() + " has none");
  if (!options.lora.empty())
    if (auto lora = support::parseLoraOptions(options.lora); !lora.ok())
      return usage("--lora: " + lora.status().message());
  if (!options.quantizeWeights.empty()) {
    auto encoding = support::parseWeightEncoding(options.quantizeWeights);
    if (!encoding.ok())
      return usage("--quantize-weights " + encoding.status().message());
    if (options.lora.empty())
      return usage("--quantize-weights quantizes frozen weights, but all "
                   "weights are trained: train adapters with --lora or "
                   "--adapter");
    if (options.precision == "fp64")
      return usage("--quantize-weights decodes weights in f32, but --precision "
                   "is fp64: leave one of them out");
  }
  if (!LossySpec::parse(options.lossy, error))
    return usage("--lossy: " + error);
  auto mesh = support::parseMesh(options.mesh);
  if (!mesh.ok())
    return usage("--mesh " + mesh.status().message());
  if (options.simulatedLink > 0 && options.target == "cuda")
    return usage("--simulate-link has no effect with --target=cuda, because "
                 "copies have the rate of the link of the GPU: leave "
                 "--simulate-link out and plan for this rate with --machine, "
                 "or compile for cpu or cuda-emu");
  if (options.simulatedNetwork > 0 && options.target == "cuda")
    return usage("--simulate-network has no effect with --target=cuda, because "
                 "NCCL sends the messages: leave --simulate-network out, or "
                 "compile for cpu or cuda-emu");
  if (options.zero < 0 || options.zero > 3)
    return usage("--zero is " + std::to_string(options.zero) +
                 ", expected a stage of ZeRO from 0 to 3");
  if (mesh->sizeOf(support::tensorAxis) > 1 && options.emitGradients)
    return usage("--emit-gradients: with tensor parallelism, each rank has "
                 "only a part of the gradients; leave --emit-gradients out, or "
                 "remove tp from --mesh");
  if (mesh->sizeOf(support::tensorAxis) == 1 && options.sequenceParallel)
    return usage(
        "--sequence-parallel divides tokens over tensor-parallel ranks, but "
        "the step has one such rank: set the number of ranks with --mesh=tp=N");
  if (mesh->sizeOf(support::dataAxis) == 1 && options.zero > 0)
    return usage(std::string(options.zeroBy == "server"
                                 ? "--parameter-server updates the parameters "
                                   "of all"
                                 : "--zero divides states over") +
                 " data-parallel ranks, but the step has one such rank: set "
                 "the number of ranks with --mesh=dp=N");
  if (auto by = support::zeroByNamed(options.zeroBy); !by)
    return usage("--zero-by is '" + options.zeroBy +
                 "', expected elements or owner");
  else if (*by != support::ZeroBy::Elements && options.zero == 0)
    return usage("--zero-by=owner chooses how states are divided, but --zero=0 "
                 "does not divide them: set --zero=1, 2 or 3");
  if (Status status = checkSyncEvery(*mesh); !status.ok())
    return status;
  if (Status status = checkCompression(*mesh); !status.ok())
    return status;
  if (mesh->size() == 1 && options.simulatedNetwork > 0)
    return usage("--simulate-network: the step has one rank, and no network; "
                 "set the number of ranks with --mesh");
  return Status();
}

/// Returns the flag with which the states are divided over ranks.
static std::string zeroFlag(const CompileOptions &options) {
  return options.zeroBy == "server" ? "--parameter-server"
                                    : "--zero=" + std::to_string(options.zero);
}

/// Checks --sync-every, and that the other options allow each data-parallel
/// rank to take several steps on its own before the ranks average their states.
Status Compilation::checkSyncEvery(const support::Mesh &mesh) const {
  auto usage = [](const std::string &message) {
    return Status(ExitCode::Usage, message);
  };
  if (options.syncEvery < 1)
    return usage("--sync-every is " + std::to_string(options.syncEvery) +
                 ", expected a positive number of steps");
  if (options.syncEvery == 1)
    return Status();
  std::string flag = "--sync-every=" + std::to_string(options.syncEvery);
  if (mesh.sizeOf(support::dataAxis) == 1)
    return usage(flag +
                 " averages the states of data-parallel ranks, but the step "
                 "has one such rank: set the number of ranks with --mesh=dp=N");
  if (options.zero > 0)
    return usage(flag + " lets each rank update whole states, but with " +
                 zeroFlag(options) +
                 " not every rank has them: leave out one of the two flags");
  if (options.emitGradients)
    return usage("--emit-gradients: with " + flag +
                 ", each rank has only the gradients of its part of the batch: "
                 "leave out one of the two flags");
  std::string error;
  auto optimizer = OptimizerSpec::parse(options.optimizer, error);
  auto types = optimizer
                   ? StateTypes::parse(options.states, *optimizer->rule, error)
                   : std::nullopt;
  if (types && types->encodedMoments)
    return usage(flag + " averages the moments of ranks, but --states stores "
                        "moments as dynamic8 codes, which cannot be averaged: "
                        "store them in f32 or bf16");
  if (options.precision == "fp16")
    return usage(flag + " lets each rank train alone, but --precision=fp16 "
                        "adapts a loss scale that all ranks must share: use "
                        "--precision=bf16");
  return Status();
}

/// Checks --compress-gradients, and that the other options allow data-parallel
/// ranks to sum compressed gradients.
Status Compilation::checkCompression(const support::Mesh &mesh) const {
  auto usage = [](const std::string &message) {
    return Status(ExitCode::Usage, "--compress-gradients" + message);
  };
  auto compression =
      support::parseGradientCompression(options.compressGradients);
  if (!compression.ok())
    return usage(" " + compression.status().message());
  if (!compression->any())
    return Status();
  if (mesh.sizeOf(support::dataAxis) == 1)
    return usage(" compresses what data-parallel ranks send, but the step has "
                 "one such rank: set the number of ranks with --mesh=dp=N");
  if (compression->scheme == support::CompressionScheme::Int8 &&
      mesh.sizeOf(support::dataAxis) > support::maxInt8Ranks)
    return usage("=int8 sums 8-bit codes of at most " +
                 std::to_string(support::maxInt8Ranks) +
                 " data-parallel ranks, but the mesh has " +
                 std::to_string(mesh.sizeOf(support::dataAxis)) +
                 ": use powersgd:R");
  if (options.syncEvery > 1)
    return usage(": with --sync-every=" + std::to_string(options.syncEvery) +
                 ", ranks send states instead of gradients: leave out one of "
                 "the two flags");
  if (options.precision == "fp16" && compression->hasStates())
    return usage(
        ": --precision=fp16 skips steps whose gradients overflow, but such a "
        "step would still update the error feedback of the compression: use "
        "--precision=bf16 or --compress-gradients=int8");
  return Status();
}

Status Compilation::readMachine() {
  machine = options.machine;
  if (!machine) {
    auto loaded = loadMachine(defaultMachine);
    if (!loaded.ok())
      return loaded.status();
    machine = std::move(*loaded);
  }
  if (options.simulatedLink > 0)
    machine->simulateLink(options.simulatedLink);
  if (options.simulatedNetwork > 0)
    machine->simulateNetwork(options.simulatedNetwork);
  return Status();
}

/// Returns the kinds of tensors that options.offload lists, or none if
/// options.offload is empty or "auto".
OffloadSet Compilation::offloadByHand() const {
  if (options.offload.empty() || options.offload == "auto")
    return OffloadSet();
  return *OffloadSet::parse(options.offload);
}

Status Compilation::runTo(PipelinePoint point) {
  PassManager passes(&context);
  buildPipeline(passes, pipeline, reached, point);
  reached = std::max(reached, point);
  // kiln-plan-memory measures several plans at the same time.
  bool wasEnabled = context.isMultithreadingEnabled();
  context.enableMultithreading();
  LogicalResult result = passes.run(*module);
  context.enableMultithreading(wasEnabled);
  if (succeeded(result))
    return Status();
  return session.status.ok()
             ? Status::badInput("model '" + options.model + "': " + diagnostics)
             : session.status;
}

/// Returns the point up to which the pipeline runs to produce the module of an
/// output stage.
static PipelinePoint pointOf(EmitStage stage) {
  switch (stage) {
  case EmitStage::Forward:
    return PipelinePoint::Forward;
  case EmitStage::Step:
    return PipelinePoint::Step;
  case EmitStage::Planned:
    return PipelinePoint::Planned;
  case EmitStage::Dispatch:
    return PipelinePoint::Dispatched;
  default:
    return PipelinePoint::Grouped;
  }
}

/// Formats a rate such that parseLinkSpeed() returns exactly the same number.
static std::string rateText(double bytesPerSecond) {
  char digits[32];
  return std::string(digits, std::to_chars(digits, digits + sizeof digits,
                                           bytesPerSecond)
                                 .ptr) +
         "B/s";
}

void Compilation::choosePipeline() {
  StepOptions &step = pipeline.step;
  step.precision = support::lowPrecisionNamed(precision) ? precision : "fp32";
  step.lora = options.lora;
  step.optimizer = options.optimizer;
  step.states = options.states;
  step.quantizeWeights = options.quantizeWeights;
  step.lossy = options.lossy;
  step.rebuild = options.rebuild;
  step.clip = options.clip;
  step.microbatches = options.microbatches;
  // Spaces separate the options in the text of a pipeline, so the value of an
  // option must not contain any.
  std::string order = SegmentOrder::parse(options.order)->text();
  llvm::replace(order, ' ', ',');
  step.order = order;
  step.evaluation = options.evaluation;
  step.keepGradients = options.emitGradients;
  step.mesh = options.mesh;
  step.sequenceParallel = options.sequenceParallel;
  step.zero = options.zero;
  step.zeroBy = options.zeroBy;
  step.syncEvery = options.syncEvery;
  step.bucketBytes = options.bucketBytes;
  step.compressGradients = options.compressGradients;
  PlanOptions &plan = pipeline.plan;
  plan.maxThreads = options.maxThreads;
  if (options.gemm != "blas")
    for (ElementType type :
         {ElementType::F32, ElementType::BF16, ElementType::F16}) {
      GemmKernel kernel = target->getGemmKernel(type, processor.features);
      if (kernel == GemmKernel::Amx && options.gemm == "avx512")
        kernel = GemmKernel::Avx512;
      if (kernel != GemmKernel::Blas)
        plan.gemmKernels.push_back(std::string(support::infoOf(type).name) +
                                   ":" + std::string(nameOf(kernel)));
    }
  plan.logits = std::max<int64_t>(
      plan.logits, target->getLogitsPerChunk(machine->deviceBytes));
  plan.recompute = options.recompute;
  plan.offload = options.offload == "auto" ? "auto" : offloadByHand().print();
  plan.budget = options.memoryBudget;
  plan.hostBudget = options.hostBudget;
  plan.machine = options.machineName;
  if (options.simulatedLink > 0)
    plan.link = rateText(options.simulatedLink);
  // Do not suggest --microbatches=auto for a .mlir file, because the file fixes
  // the shapes of one micro-batch.
  plan.suggestMicrobatches =
      !options.autoMicrobatches && isModelDirectory(options.model);
  pipeline.dispatch.fuse = options.fuse;
  pipeline.schedule.maxThreads = options.maxThreads;
  session.machine = machine;
  pipeline.session = &session;
}

/// Checks that the schedule has the arena heights that the planner predicted.
Status Compilation::checkPrediction() {
  PlanAttr plan = decidedPlan();
  if (!plan)
    return Status();
  int64_t promised = plan.getPredictedPeakBytes();
  int64_t promisedHost = plan.getPredictedHostBytes();
  rt::ArenaOp arena = *module->getOps<rt::ArenaOp>().begin();
  int64_t height = arena.getHeight(), host = arena.getHostHeight();
  if (promised == height && promisedHost == host)
    return Status();
  return Status::error("internal error: the plan predicts a device arena of " +
                       std::to_string(promised) +
                       " bytes and a host arena of " +
                       std::to_string(promisedHost) +
                       " bytes, but the schedule has a device arena of " +
                       std::to_string(height) + " bytes and a host arena of " +
                       std::to_string(host));
}

Status Compilation::write(StringRef what) {
  return writeOutput(options.output, what);
}

Status Compilation::writeReport(const llvm::json::Object &plan) {
  StringRef report = options.report;
  if (report.empty())
    return Status();
  if (report.ends_with(".snapshot.json"))
    return writeOutput(options.report, planSnapshot(plan));
  if (report.ends_with(".json"))
    return writeOutput(
        options.report,
        llvm::formatv("{0:2}\n", llvm::json::Value(llvm::json::Object(plan)))
            .str());
  auto model = (*module)->getAttrOfType<DictionaryAttr>(kModelAttr);
  auto name = model.getAs<StringAttr>("name");
  ReportTitle title;
  title.model = name ? name.getValue().str() : "a model";
  title.version = KILN_VERSION;
  title.commandLine = options.commandLine;
  return writeOutput(options.report, planPage(plan, title));
}

/// Replaces each location by the name of the layer or tensor that the location
/// contains, if any. Returns true if at least one location contains a name.
static bool keepNamesOfLocations(ModuleOp module) {
  bool hasNames = false;
  auto reduced = [&](Location loc) -> LocationAttr {
    StringRef name = getLocationName(loc);
    // Keep unknown locations: if CSE replaces op A by op B, then B gets the
    // location of A, and thus the name of A, only if the location of B is
    // unknown.
    if (name.empty() && isa<UnknownLoc>(loc))
      return loc;
    if (name.empty())
      return FileLineColLoc::get(loc.getContext(), "-", 0, 0);
    hasNames = true;
    return NameLoc::get(StringAttr::get(loc.getContext(), name));
  };
  module->walk([&](Operation *op) {
    op->setLoc(reduced(op->getLoc()));
    for (Region &region : op->getRegions())
      for (BlockArgument argument : region.getArguments())
        argument.setLoc(reduced(argument.getLoc()));
  });
  return hasNames;
}

/// Writes a module as text. A forward graph keeps the names of its ops, so that
/// compiling the written graph gives the same plan with the same names. Modules
/// of later stages are written without names.
Status Compilation::writeModule(ModuleOp written) {
  std::string text;
  llvm::raw_string_ostream stream(text);
  OpPrintingFlags flags;
  if (options.stage == EmitStage::Forward && keepNamesOfLocations(written))
    flags.enableDebugInfo();
  written.print(stream, flags);
  stream << "\n";
  return write(text);
}

/// Stores the first error of the compiler for the one-line error message.
void Compilation::collectDiagnostic(Diagnostic &diagnostic) {
  if (diagnostic.getSeverity() != DiagnosticSeverity::Error ||
      !diagnostics.empty())
    return;
  llvm::raw_string_ostream stream(diagnostics);
  Location place = diagnostic.getLocation();
  if (auto loc = place->findInstanceOf<FileLineColLoc>())
    stream << "line " << loc.getLine() << ": ";
  else if (StringRef name = getLocationName(place); !name.empty())
    stream << "at '" << firstLineOf(name) << "': ";
  stream << diagnostic;
  for (Diagnostic &note : diagnostic.getNotes())
    stream << " (" << note << ")";
  diagnostics = firstLineOf(diagnostics);
}

/// Checks that the target supports the model, and sets the target attribute of
/// the module.
Status Compilation::setModuleTarget() {
  ElementType computed =
      precision == "fp64" ? ElementType::F64 : ElementType::F32;
  if (StringRef why = target->whyUnsupported(computed); !why.empty())
    return Status(ExitCode::Usage,
                  "'" + options.model + "' is compiled in " + precision +
                      ", which needs --target=" +
                      targetsWith([&](const TargetBackend &other) {
                        return other.whyUnsupported(computed).empty();
                      }) +
                      ": " + why.str());
  setTarget(*module, *target);
  FusionRules rules = target->getFusionRules();
  if (options.libraryAttention && rules.libraryAttention)
    (*module)->setAttr(kAttentionAttr, StringAttr::get(&context, "cudnn"));
  if (options.vendorEpilogues && rules.epilogues == EpilogueKind::Vendor)
    (*module)->setAttr(kVendorEpiloguesAttr, UnitAttr::get(&context));
  return Status();
}

Status Compilation::plan() {
  if (Status status = findBackend(); !status.ok())
    return status;
  if (Status status = checkOptions(); !status.ok())
    return status;
  if (!options.remarks.empty())
    if (Status status = collectRemarks(context, remarks); !status.ok())
      return status;
  if (Status status = readModel(); !status.ok())
    return status;
  if (Status status = setModuleTarget(); !status.ok())
    return status;
  module->walk([&](Operation *op) {
    if (auto random = dyn_cast<DropoutOp>(op))
      dropout = std::max(dropout, random.getP().convertToDouble());
    else if (auto attention = dyn_cast<AttentionOp>(op))
      dropout = std::max(dropout, attention.getP().convertToDouble());
  });
  if (Status status = readMachine(); !status.ok())
    return status;
  choosePipeline();
  return runTo(std::min(PipelinePoint::Planned, pointOf(options.stage)));
}

Status Compilation::finish(llvm::ArrayRef<PlanTrial> trials,
                           const PlanTrial &chosen) {
  for (const std::string &warning : warnings)
    llvm::errs() << "kilnc: warning: " << warning << "\n";
  Status status = runTo(pointOf(options.stage));
  if (status.ok() && options.stage >= EmitStage::Schedule)
    status = checkPrediction();
  if (status.ok() && !options.remarks.empty()) {
    remarkTrials(*module, trials, chosen);
    remarkStates(*module);
    remarkEncodings(*module);
    status = writeOutput(options.remarks, remarks);
  }
  if (!status.ok())
    return status;
  if (options.stage <= EmitStage::Schedule)
    return writeModule(*module);
  return generateCode();
}

Status Compilation::printPipeline() {
  // Reject braces and quotes. They are delimiters in MLIR's textual pipelines,
  // which have no escape sequences for them.
  if (StringRef(options.machineName).find_first_of("{}'\"") != StringRef::npos)
    return Status(ExitCode::Usage,
                  "--print-pipeline cannot write --machine='" +
                      options.machineName +
                      "': rename the file without braces and quotes");
  OpPassManager passes(ModuleOp::getOperationName());
  buildPipeline(passes, pipeline, PipelinePoint::Imported,
                PipelinePoint::Grouped);
  std::string text;
  llvm::raw_string_ostream stream(text);
  passes.printAsTextualPipeline(stream);
  return writeOutput("-", text + "\n");
}

PlanAttr Compilation::decidedPlan() {
  return (*module)->getAttrOfType<PlanAttr>(kPlanAttr);
}

double Compilation::predictedSeconds() {
  return 1e-3 * decidedPlan().getPredictedStepMs().getValueAsDouble();
}

Result<PlanOutlook>
Compilation::outlook(std::function<int64_t(int64_t height)> chooseBudget) {
  session.outlookBudget = std::move(chooseBudget);
  if (Status status = plan(); !status.ok())
    return status;
  return session.outlook;
}

bool Compilation::mayGainFromStates() {
  double seconds = predictedSeconds(), copied = 0;
  double unplanned =
      1e-3 * decidedPlan().getUnplannedStepMs().getValueAsDouble();
  for (StateOp state : module->getOps<StateOp>())
    if (state.isTrainable())
      copied += double(bytesOf(state.getType()));
  return seconds > kOptimalityTolerance * unplanned &&
         seconds > machine->linkSeconds(copied, LinkDirection::ToHost);
}
