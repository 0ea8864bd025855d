//===- QuantizeModel.cpp - Quantization of a saved model ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Compiler/QuantizeModel.h"

#include "ModelFiles.h"
#include "WeightEvaluation.h"
#include "WeightPacker.h"

#include "kiln/Compiler/Registration.h"
#include "kiln/Dialect/Kiln/Transforms/MatmulWeights.h"
#include "kiln/Import/HuggingFace.h"
#include "kiln/Import/ModelTensors.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/LoraConfig.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/OutputDirectory.h"
#include "kiln/Support/Process.h"
#include "kiln/Support/UnusedTensors.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/FormatVariadic.h"
#include "llvm/Support/Path.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace kiln::support;
using namespace kiln;

static constexpr StringRef halfName = "f16";

namespace {

class ModelQuantizer {
public:
  explicit ModelQuantizer(const QuantizeOptions &options) : options(options) {}

  Status run();

private:
  Status checkOutput() const;
  Status readModel();
  Status openWeights();
  Status choose();
  Status writeFiles(const std::string &staging) const;
  Result<EvaluatedLoss> evaluate(const std::string &directory,
                                 const std::vector<std::string> &unused) const;
  void printSize() const;
  void printLoss() const;

  const QuantizeOptions &options;
  std::optional<PackedFormat> format; ///< Unset for f16.
  DialectRegistry registry;
  std::optional<MLIRContext> context;
  OwningOpRef<ModuleOp> module;
  std::optional<ModelWeights> weights;
  /// The tensors of the weight files that the model does not use.
  std::vector<std::string> unused;
  std::optional<WeightPacker> packer;
  std::optional<WeightEvaluation> evaluation;
  EvaluatedLoss before, after;
};

} // namespace

Status ModelQuantizer::checkOutput() const {
  if (!isNewDirectory(options.output))
    return Status(ExitCode::Usage,
                  "-o " + options.output +
                      " exists and is not an empty directory; choose another "
                      "name");
  return tryDirectory(options.output);
}

/// Returns the path of the checkpoint with the most steps in `directory`, or ""
/// if there is none.
static std::string newestCheckpoint(const std::string &directory) {
  std::string newest;
  int64_t most = -1;
  std::error_code failure;
  for (llvm::sys::fs::directory_iterator entry(directory, failure), end;
       !failure && entry != end; entry.increment(failure)) {
    StringRef name = llvm::sys::path::filename(entry->path());
    int64_t step = 0;
    if (name.consume_front("checkpoint-") && !name.getAsInteger(10, step) &&
        step > most) {
      most = step;
      newest = entry->path();
    }
  }
  return newest;
}

Status ModelQuantizer::readModel() {
  llvm::SmallString<256> config(options.model), adapter(options.model);
  llvm::sys::path::append(config, "config.json");
  llvm::sys::path::append(adapter, adapterConfigFile);
  auto refuse = [&](const std::string &problem) {
    return Status::badInput("'" + options.model + "' " + problem);
  };
  if (!holdsWeights(options.model) && llvm::sys::fs::exists(adapter))
    return refuse("is an adapter, expected the weights of a model: merge "
                  "it into its model by passing --save-merged to the "
                  "executable that trained it");
  if (!llvm::sys::fs::exists(config)) {
    std::string newest = newestCheckpoint(options.model);
    if (!newest.empty())
      return refuse("is a directory of checkpoints, expected a single "
                    "checkpoint: choose '" +
                    newest + "', which is the newest, or another one");
    if (holdsWeights(options.model))
      return refuse("has weights but no config.json, so it is unknown which "
                    "weights are matrices of linear layers; expected a Hugging "
                    "Face directory or a checkpoint of such a model");
  }
  registerAllDialects(registry);
  context.emplace(registry, MLIRContext::Threading::DISABLED);
  ImportOptions import;
  import.ignoredKeys = options.evaluation.ignoredConfigKeys;
  auto imported = importHuggingFace(*context, options.model, import);
  if (!imported)
    return statusOf(imported.takeError());
  module = std::move(*imported);
  return Status();
}

Status ModelQuantizer::openWeights() {
  Result<ModelWeights> opened = ModelWeights::open(options.model);
  if (!opened.ok())
    return opened.status();
  for (const std::string &warning : opened->warnings())
    llvm::errs() << "kilnc: warning: " << warning << "\n";
  weights.emplace(std::move(*opened));
  if (std::optional<PackedFormat> packed = weights->packedFormat())
    return Status::badInput("'" + options.model +
                            "' is already quantized, to " + packed->name() +
                            "; quantize the original weights");
  return Status();
}

/// Finds the tensor of each state of the model, and chooses which tensors are
/// quantized.
Status ModelQuantizer::choose() {
  std::vector<StateOp> states = weightStates(*module);
  std::vector<ExpectedTensor> expected;
  for (StateOp state : states)
    expected.push_back(expectedTensor(state));
  auto found = weights->match(expected);
  if (!found.ok())
    return found.status();
  unused = findUnusedTensors(*weights, expected, *found,
                             knownUnusedTensors(*module));
  // Copies of tied tensors must be equal: only one of them is stored.
  Status status = checkUnusedTensors(*weights, expected, *found,
                                     {knownUnusedTensors(*module), unused});
  if (!status.ok())
    return status;
  if (!unused.empty())
    llvm::errs() << "kilnc: warning: '" << options.model << "' holds tensor "
                 << inQuotes(unused.front())
                 << (unused.size() == 1
                         ? std::string()
                         : " and " + std::to_string(unused.size() - 1) +
                               " others")
                 << ", which the model does not use: left out\n";
  MatmulWeights matrices =
      findMatmulWeights(*module, [](StateOp) { return true; });
  packer.emplace(*weights, format, options.evaluation.maxThreads);
  for (auto [state, tensor] : llvm::zip_equal(states, *found))
    packer->add(*tensor, matrices.contains(state.getSymNameAttr()));
  if (format && packer->quantizedTensors() == 0)
    return Status::badInput("'" + options.model +
                            "' has no weights of linear layers to quantize");
  return Status();
}

/// Returns the text of a config.json with f16 as the type of the tensors.
static std::string configOfHalf(StringRef config) {
  constexpr StringRef type = "float16";
  Result<nlohmann::json> json = parseJson(config.str(), "config.json");
  bool hasType =
      json.ok() && (json->contains("dtype") || json->contains("torch_dtype"));
  if (hasType)
    return withStorageType(config, type);
  // The JSON object is not empty, because a model was imported from it, so the
  // new entry is followed by a comma.
  std::size_t start = config.find('{') + 1;
  return (config.take_front(start) + "\"torch_dtype\": \"" + type + "\"," +
          config.drop_front(start))
      .str();
}

Status ModelQuantizer::writeFiles(const std::string &staging) const {
  auto files = readModelFiles(*module, options.model);
  if (!files.ok())
    return files.status();
  for (auto &[name, contents] : *files) {
    if (name == "config.json" && !format)
      contents = configOfHalf(contents);
    if (Status status = writeFile(staging + "/" + name, contents); !status.ok())
      return status;
  }
  return packer->write(staging + "/" +
                       (format ? packedFileName : "model.safetensors"));
}

Result<EvaluatedLoss>
ModelQuantizer::evaluate(const std::string &directory,
                         const std::vector<std::string> &unused) const {
  if (!evaluation)
    return EvaluatedLoss();
  return evaluation->run(directory, unused, options.validationData,
                         options.validationBatches);
}

void ModelQuantizer::printSize() const {
  llvm::outs() << llvm::formatv(
      "{0}: {1} of {2} tensors with {3:N} of {4:N} elements\n", options.format,
      packer->quantizedTensors(), packer->tensors(),
      packer->quantizedElements(), packer->elements());
  llvm::outs() << llvm::formatv(
      "size: {0:N} bytes before, {1:N} bytes after, ratio {2:f6}\n",
      packer->bytesBefore(), packer->bytesAfter(),
      double(packer->bytesAfter()) / double(packer->bytesBefore()));
}

void ModelQuantizer::printLoss() const {
  if (!evaluation)
    return;
  double change = 100 * (after.loss - before.loss) / before.loss;
  llvm::outs() << llvm::formatv(
      "loss: {0:f6} before, {1:f6} after, {2}{3:f4} %, mean over {4:N} "
      "targets\n",
      before.loss, after.loss, change < 0 ? "" : "+", change, after.targets);
}

Status ModelQuantizer::run() {
  if (options.format != halfName) {
    format = PackedFormat::named(options.format);
    if (!format)
      return Status(ExitCode::Usage, "--quantize is " +
                                         inQuotes(options.format) +
                                         ", expected " + halfName.str() + ", " +
                                         PackedFormat::allNames());
  }
  Status status = checkOutput();
  if (status.ok())
    status = readModel();
  if (status.ok())
    status = openWeights();
  if (status.ok())
    status = choose();
  if (!status.ok())
    return status;
  if (!options.validationData.empty()) {
    CompileOptions compilation = options.evaluation;
    compilation.model = options.model;
    auto compiled = WeightEvaluation::compile(compilation);
    if (!compiled.ok())
      return compiled.status();
    evaluation.emplace(std::move(*compiled));
    auto evaluated = evaluate(options.model, unused);
    if (!evaluated.ok())
      return evaluated.status();
    before = *evaluated;
  }
  status = writeDirectory(options.output, [&](const std::string &staging) {
    if (Status written = writeFiles(staging); !written.ok())
      return written;
    auto evaluated = evaluate(staging, {});
    if (evaluated.ok())
      after = *evaluated;
    return evaluated.status();
  });
  if (!status.ok())
    return status;
  printSize();
  printLoss();
  llvm::outs() << "saved " << options.output << "\n";
  return Status();
}

Status kiln::quantizeModel(const QuantizeOptions &options) {
  // On a signal, stop between two parts of a tensor and remove the incomplete
  // output.
  installStopSignals();
  return ModelQuantizer(options).run();
}
