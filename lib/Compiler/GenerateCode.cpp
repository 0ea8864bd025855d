//===- GenerateCode.cpp - Code generation for scheduled modules -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compilation.h"

#include "KernelCode.h"
#include "Link.h"
#include "ModelFiles.h"
#include "StepCost.h"

#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Import/HuggingFace.h"
#include "kiln/Report/PlanReport.h"
#include "kiln/Target/Common/ProgramWriter.h"
#include "kiln/Target/Cpu/CodeGen.h"

using namespace mlir;
using namespace kiln;

/// Returns the type in which a saved model stores its tensors, spelled as in
/// config.json: the widest type of its parameters, or float32 if several types
/// have this width.
static StringRef storageType(ModuleOp module) {
  Type widest;
  for (StateOp state : module.getOps<StateOp>()) {
    Type type = state.getWeightType().getElementType();
    if (state.getRole() != Role::Parameter || state.getAdapter())
      continue;
    if (!widest || elementBytes(type) > elementBytes(widest))
      widest = type;
    else if (type != widest && elementBytes(type) == elementBytes(widest))
      widest = Float32Type::get(module.getContext());
  }
  if (!widest)
    return "float32";
  return widest.isF64()    ? "float64"
         : widest.isBF16() ? "bfloat16"
         : widest.isF16()  ? "float16"
                           : "float32";
}

Status Compilation::generateCode() {
  BuildRecord record;
  record.version = KILN_VERSION;
  record.optimizer = options.optimizer;
  record.lossy = options.lossy;
  record.precision = precision;
  record.commandLine = options.commandLine;
  record.microbatches = options.microbatches;
  record.maxThreads = options.maxThreads;
  record.clip = options.clip;
  record.eval = options.evaluation;
  record.dropout = dropout;
  record.linkBytesPerSecond = options.simulatedLink;
  record.networkBytesPerSecond = options.simulatedNetwork;
  record.plannedOutBytesPerSecond = machine->link.toHost;
  record.plannedInBytesPerSecond = machine->link.toDevice;
  record.processor = processor;
  auto model = (*module)->getAttrOfType<DictionaryAttr>(kModelAttr);
  record.batch =
      model.getAs<IntegerAttr>("batch").getInt() * options.microbatches;

  for (rt::ProgramOp program : module->getOps<rt::ProgramOp>()) {
    if (program.getKind() == ProgramKind::Train)
      record.predictedStepMs = 1e3 * programSeconds(program, *machine);
    if (program.getKind() == ProgramKind::Sync)
      record.predictedSyncMs = 1e3 * programSeconds(program, *machine);
  }
  record.lowerBoundMs = record.predictedStepMs;
  if (PlanAttr planned = decidedPlan())
    record.lowerBoundMs = planned.getLowerBoundMs().getValueAsDouble();

  llvm::json::Object plan = kiln::writePlan(*module, *target, record);
  if (Status status = writeReport(plan); !status.ok())
    return status;
  std::string summary = planSummary(plan);
  if (options.stage == EmitStage::Plan) {
    Status status = write(
        llvm::formatv("{0:2}\n", llvm::json::Value(std::move(plan))).str());
    if (status.ok() && options.output != "-")
      llvm::outs() << summary;
    return status;
  }

  auto files = readModelFiles(*module, options.model);
  if (!files.ok())
    return files.status();
  for (auto &[name, contents] : *files)
    if (name == "config.json")
      contents = withStorageType(contents, storageType(*module));
  record.files = std::move(*files);

  const CodeGenerator &generator = target->getCodeGenerator();
  CodeTraits traits = generator.getTraits();
  KernelCode code(*module, generator);
  if (failed(code.emit()))
    return Status::error(traits.refusal.str() + diagnostics);
  if (options.stage == EmitStage::Llvm)
    return writeModule(code.deviceModule());
  if (options.stage == EmitStage::Ptx) {
    auto text = generator.compileToPtx(code.deviceModule(),
                                       options.gpuArchitectures.front());
    return text ? write(*text)
                : Status::error(llvm::toString(text.takeError()));
  }
  if (options.stage == EmitStage::Object) {
    auto object = code.compileToObject(processor);
    return object ? write(StringRef(object->data(), object->size()))
                  : Status::error("internal error: " +
                                  llvm::toString(object.takeError()));
  }
  std::optional<KernelCache> cache;
  if (!options.kernelCache.empty()) {
    auto compiler = KernelCache::thisCompiler();
    if (!compiler.ok())
      return compiler.status();
    auto opened = KernelCache::open(options.kernelCache, *compiler);
    if (!opened.ok())
      return opened.status();
    cache = std::move(*opened);
  }
  auto objects = code.compile(processor, cache ? &*cache : nullptr);
  if (!objects)
    return Status::error("internal error: " +
                         llvm::toString(objects.takeError()));
  if (!objects->stored.ok())
    llvm::errs() << "kilnc: note: " << objects->stored.message() << "\n";

  LinkInput link;
  DeviceImages images;
  if (traits.images) {
    auto compiled =
        generator.compileImages(code.deviceModule(), options.gpuArchitectures);
    if (!compiled)
      return Status::error(llvm::toString(compiled.takeError()));
    images = std::move(*compiled);
    link.images = images.images;
    if (!images.note.empty())
      llvm::errs() << "kilnc: note: " << images.note << "\n";
  }
  std::string description =
      llvm::formatv("{0}", llvm::json::Value(kiln::writeProgram(
                               *module, *target, code.index(), record)))
          .str();
  link.objects = objects->files;
  link.kernels = code.symbols();
  link.description = description;
  link.libraryDirectory = options.libraryDirectory;
  link.output = options.output;
  link.archives = generator.getRuntimeArchives();
  Status linked = linkExecutable(link);
  if (linked.ok() && options.memoryBudget && options.memoryBudget != kNoBudget)
    llvm::outs() << summary;
  return linked;
}
