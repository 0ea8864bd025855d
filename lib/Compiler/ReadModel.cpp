//===- ReadModel.cpp - Reading the model of a compilation -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Compilation.h"

#include "kiln/Dialect/Kiln/IR/AttentionLibrary.h"
#include "kiln/Dialect/Kiln/IR/KilnVendor.h"
#include "kiln/Dialect/Kiln/IR/SourceCheck.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Import/HuggingFace.h"

#include "mlir/Parser/Parser.h"
#include "llvm/Support/FileSystem.h"
#include "llvm/Support/MemoryBuffer.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/SourceMgr.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

Status Compilation::readModel() {
  if (!isModelDirectory(options.model))
    return readModelFile();
  ImportOptions import;
  import.batch =
      options.batch.value_or(options.microbatches) / options.microbatches;
  import.sequenceLength = options.sequenceLength;
  precision = options.precision.value_or("fp32");
  import.elementType = precision == "fp64"
                           ? FloatType(Float64Type::get(&context))
                           : FloatType(Float32Type::get(&context));
  import.dropout = options.dropout;
  import.ignoredKeys = options.ignoredConfigKeys;
  import.layers = options.layers;
  auto imported = importHuggingFace(context, options.model, import);
  llvm::Error error = imported
                          ? checkWeights(**imported, options.model, warnings)
                          : imported.takeError();
  if (error)
    return statusOf(std::move(error));
  module = std::move(*imported);
  return Status();
}

/// Sets the probability of all dropout ops and of all attention ops with
/// dropout. Removes the dropout ops if `p` is 0. Returns false if the model has
/// no such ops.
static bool overrideDropout(ModuleOp module, double p) {
  bool isFound = false;
  module.walk([&](Operation *op) {
    if (auto dropout = dyn_cast<DropoutOp>(op)) {
      isFound = true;
      dropout.setP(APFloat(p));
      if (p == 0) {
        dropout.replaceAllUsesWith(dropout.getX());
        dropout.erase();
      }
    } else if (auto attention = dyn_cast<AttentionOp>(op)) {
      if (attention.getP().convertToDouble() > 0) {
        isFound = true;
        attention.setP(APFloat(p));
      }
    }
  });
  return isFound;
}

/// Returns an error if the model is a single file of a Hugging Face directory.
/// Such a file is not a complete model.
static Status refuseFileOfDirectory(llvm::StringRef file) {
  llvm::StringRef extension = llvm::sys::path::extension(file);
  if (extension != ".json" && extension != ".safetensors")
    return Status();
  llvm::StringRef directory = llvm::sys::path::parent_path(file);
  if (directory.empty())
    directory = ".";
  llvm::SmallString<256> config(directory);
  llvm::sys::path::append(config, "config.json");
  std::string expected =
      llvm::sys::fs::exists(config)
          ? "give its directory instead: kilnc " + directory.str()
          : "expected a Hugging Face directory, which has a config.json, or a "
            ".mlir file";
  return Status::badInput(
      "model '" + file.str() +
      "' is a single file of a Hugging Face model: " + expected);
}

/// Reads a program in the kiln dialect. The types in the program determine the
/// batch size and the sequence length.
Status Compilation::readModelFile() {
  if (!llvm::sys::fs::exists(options.model))
    return Status::badInput(
        "model '" + options.model +
        "' does not exist: expected a Hugging Face directory or a .mlir file");
  if (Status status = refuseFileOfDirectory(options.model); !status.ok())
    return status;
  if (!options.ignoredConfigKeys.empty())
    return Status(ExitCode::Usage,
                  "--ignore-config-keys needs a Hugging Face directory: '" +
                      options.model + "' has no config.json");
  auto buffer = llvm::MemoryBuffer::getFile(options.model);
  if (!buffer)
    return Status::badInput("cannot read model '" + options.model +
                            "': " + buffer.getError().message());
  if (auto reason = findUnparsable((*buffer)->getBuffer()))
    return Status::badInput("model '" + options.model + "': " + *reason);
  llvm::SourceMgr sources;
  sources.AddNewSourceBuffer(std::move(*buffer), llvm::SMLoc());
  module = parseSourceFile<ModuleOp>(sources, &context);
  StringRef extension = llvm::sys::path::extension(options.model);
  if (!module && extension != ".mlir" && extension != ".mlirbc")
    return Status::badInput(
        "model '" + options.model +
        "' is neither a Hugging Face directory nor a program in the kiln "
        "dialect: " +
        diagnostics);
  if (!module)
    return Status::badInput("model '" + options.model + "': " + diagnostics);
  // The compiler sets these attributes itself. Remove those that the file
  // contains.
  for (StringRef name : {kPlanAttr, kEncodedAttr, kTargetAttr, kAttentionAttr,
                         kVendorEpiloguesAttr, kMeshAttr, kSyncEveryAttr})
    (*module)->removeAttr(name);
  for (ProgramOp program : module->getOps<ProgramOp>())
    for (StringRef name : {kGatherHeightAttr, kArenaSearchAttr})
      program->removeAttr(name);
  // Verify the program before reading shapes from it.
  if (failed(verifyLevel(*module, Level::Forward)))
    return Status::badInput("model '" + options.model + "': " + diagnostics);
  ProgramOp forward = *findForward(*module);
  auto tokens = tensorTypeOf(forward.getInput(InputRole::Tokens));
  int64_t batch = tokens.getDimSize(0), length = tokens.getDimSize(1);
  precision = "fp32";
  for (StateOp state : module->getOps<StateOp>())
    if (state.getTensorType().getElementType().isF64())
      precision = "fp64";
  // Programs of precision fp32 and programs of mixed precision have fp32
  // states. Only the option distinguishes them.
  if (precision == "fp32" && options.precision &&
      support::lowPrecisionNamed(*options.precision))
    precision = *options.precision;
  if (options.precision && *options.precision != precision)
    return Status(ExitCode::Usage,
                  "--precision is " + *options.precision +
                      ", but the states in '" + options.model + "' are " +
                      precision +
                      ": change their types, or leave --precision out");
  if (options.dropout && !overrideDropout(*module, *options.dropout) &&
      *options.dropout > 0)
    return Status(ExitCode::Usage,
                  "--dropout is " + std::to_string(*options.dropout) +
                      ", but '" + options.model +
                      "' has no dropout whose probability it could replace: "
                      "leave --dropout out");
  if (options.batch && *options.batch != batch * options.microbatches)
    return Status(
        ExitCode::Usage,
        "--batch is " + std::to_string(*options.batch) +
            ", but the shapes in '" + options.model + "' are for " +
            std::to_string(batch) +
            " sequences per micro-batch: leave --batch out, or use --batch=" +
            std::to_string(batch * options.microbatches));
  if (options.sequenceLength && options.sequenceLength != length)
    return Status(ExitCode::Usage,
                  "--seq is " + std::to_string(options.sequenceLength) +
                      ", but the shapes in '" + options.model + "' are for " +
                      std::to_string(length) + " tokens");
  // Keep the entries of `kiln.model` that the file contains, and derive the
  // missing ones from the program.
  Builder b(&context);
  NamedAttrList model((*module)->getAttrOfType<DictionaryAttr>(kModelAttr));
  auto complete = [&](StringRef key, Attribute value) {
    if (!model.get(key))
      model.set(key, value);
  };
  complete("type", b.getStringAttr("mlir"));
  complete("name", b.getStringAttr(llvm::sys::path::stem(options.model)));
  complete("vocab_size", b.getI64IntegerAttr(*findVocabulary(forward)));
  complete("batch", b.getI64IntegerAttr(batch));
  complete("sequence_length", b.getI64IntegerAttr(length));
  complete("has_weights", b.getBoolAttr(false));
  complete("files", b.getArrayAttr({}));
  (*module)->setAttr(kModelAttr, model.getDictionary(&context));
  return Status();
}

Result<int64_t> Compilation::countLayers() {
  if (Status status = findBackend(); !status.ok())
    return status;
  if (Status status = readModel(); !status.ok())
    return status;
  llvm::SmallDenseSet<Attribute> layers;
  module->walk([&](Operation *op) {
    if (Attribute layer = op->getAttr(kLayerAttr))
      layers.insert(layer);
  });
  return static_cast<int64_t>(layers.size());
}
