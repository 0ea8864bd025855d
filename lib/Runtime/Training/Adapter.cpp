//===- Adapter.cpp - Files of low-rank adapters ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Adapter.h"

#include "Checkpoint.h"
#include "States.h"
#include "TrainingInfo.h"
#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/JsonReader.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/ModelWeights.h"
#include "kiln/Support/Posix.h"
#include "kiln/Support/Process.h"

#include <filesystem>
#include <set>

using namespace kiln::support;

namespace kiln::runtime {

static constexpr size_t hashDigits = 32;

/// Returns the type of a weight in memory, such as "F32", "NF4" or
/// "INT8:outliers=4".
static std::string storageOf(const StateInfo &state) {
  if (!state.quantized)
    return std::string(infoOf(state.type).fileName);
  auto *int8 = std::get_if<Int8Layout>(&state.quantized->layout);
  if (!int8)
    return "NF4";
  std::string text = "INT8";
  if (int8->outliers > 0)
    text += ":outliers=" + std::to_string(int8->outliers);
  if (int8->block != Int8Layout::blockElements)
    text += std::string(int8->outliers > 0 ? "," : ":") + "scales=row";
  return text;
}

std::string storageOf(const Description &description) {
  std::set<std::string> types;
  for (const StateInfo &state : description.states)
    if (isWeight(state))
      types.insert(storageOf(state));
  std::string text;
  for (const std::string &type : types)
    text += (text.empty() ? "" : ", ") + type;
  return text;
}

nlohmann::json baseJson(const BaseReference &base) {
  nlohmann::json json = {{"initial_values", base.path.empty()},
                         {"storage", base.storage}};
  if (!base.path.empty()) {
    json["path"] = base.path;
    json["tensors_xxh3_128"] = base.hash;
  }
  return json;
}

Result<BaseReference> parseBase(const nlohmann::json &json,
                                const std::string &source) {
  ReadFailure failure(ExitCode::BadInput, source,
                      "the manifest is not one that kiln wrote: choose "
                      "another checkpoint");
  Node root(json, failure);
  BaseReference base;
  base.storage = root.at("storage").text();
  bool isInitial = root.at("initial_values").boolean();
  if (failure.failed())
    return failure.status();
  if (isInitial)
    return base;
  base.path = root.at("path").text();
  Node hash = root.at("tensors_xxh3_128");
  base.hash = hash.text();
  if (!failure.failed() &&
      (base.hash.size() != hashDigits ||
       base.hash.find_first_not_of("0123456789abcdef") != std::string::npos))
    hash.fail("is " + inQuotes(base.hash) +
              ", expected 32 hexadecimal digits in lower case");
  if (!failure.failed() &&
      (base.path.empty() || base.path.find('\0') != std::string::npos))
    root.at("path").fail("is empty or contains a zero byte, expected a path");
  if (failure.failed())
    return failure.status();
  return base;
}

Status checkBase(const BaseReference &base, const std::string &path,
                 const std::string &hash, const std::string &source) {
  if (base.hash == hash)
    return Status();
  return Status::badInput(
      source + " was trained on base weights with hash " + base.hash +
      ", but those in " + inQuotes(path) + " have hash " + hash +
      ": name the directory of the original weights with --base=DIR");
}

std::vector<size_t> adapterStates(const Description &description) {
  std::vector<size_t> indexes;
  for (size_t i = 0; i < description.states.size(); ++i)
    if (description.states[i].adapter)
      indexes.push_back(i);
  return indexes;
}

std::string adapterConfigText(const Description &description,
                              const BaseReference &base) {
  bool isTransposed = false;
  for (const StateInfo &state : description.states)
    isTransposed |= state.adapter && state.adapter->isTransposed;
  return adapterConfig(*description.lora, base.path, isTransposed);
}

/// Returns an error if the options of an adapter differ from those with which
/// the executable was compiled.
static Status checkOptions(const Description &description,
                           const LoraConfig &config, const std::string &source,
                           const std::string &directory) {
  const LoraConfig &built = *description.lora;
  if (config.rank == built.rank && config.scale() == built.scale())
    return Status();
  return Status::badInput(
      source + ": the adapter has r=" + std::to_string(config.rank) +
      " and a scale of " + numberText(config.scale()) +
      ", but this executable was compiled for r=" + std::to_string(built.rank) +
      " and a scale of " + numberText(built.scale()) +
      ": compile it with kilnc --adapter=" + directory);
}

/// Opens the files of an adapter that PEFT saved.
static Result<AdapterSource> openDirectory(const std::string &path,
                                           std::string &config) {
  Result<std::string> text =
      readSmallFile(path + "/" + adapterConfigFile, maxAdapterConfigBytes);
  if (!text.ok())
    return text.status();
  config = std::move(*text);
  Result<InputFile> weights = InputFile::openSibling(path, adapterWeightsFile);
  if (!weights.ok())
    return weights.status();
  return AdapterSource{path, std::move(*weights), {}, 0, {}};
}

/// Opens the files of an adapter in a checkpoint, and verifies them.
static Result<AdapterSource> openCheckpointed(const std::string &path,
                                              std::string &config,
                                              std::vector<std::string> &notes) {
  Result<FoundCheckpoint> found = findCheckpoint(path);
  if (!found.ok())
    return found.status();
  notes.insert(notes.end(), found->notes.begin(), found->notes.end());
  std::string source = "checkpoint " + inQuotes(found->path);
  const nlohmann::json &extra = found->manifest.extra;
  auto base = extra.find("base");
  if (!extra.is_object() || base == extra.end())
    return Status::badInput(
        source + " has no adapters, expected a checkpoint of adapters");
  Result<BaseReference> reference = parseBase(*base, source);
  if (!reference.ok())
    return reference.status();
  std::optional<Progress> progress = readProgress(found->manifest);
  Result<InputFile> text = found->open(adapterConfigFile);
  Result<InputFile> weights = found->open(adapterWeightsFile);
  if (!progress || !text.ok() || !weights.ok() ||
      text->size() > maxAdapterConfigBytes)
    return Status::badInput(source + " is not a checkpoint of adapters that "
                                     "kiln wrote; choose another one");
  config.resize(text->size());
  if (Status status = text->read(0, config.data(), config.size()); !status.ok())
    return status;
  return AdapterSource{found->path,
                       std::move(*weights),
                       std::move(*reference),
                       progress->seed,
                       {}};
}

Result<AdapterSource> openAdapter(const Description &description,
                                  const std::string &path,
                                  std::vector<std::string> &notes) {
  std::error_code error;
  bool isPlain =
      std::filesystem::exists(path + "/" + adapterConfigFile, error) &&
      !std::filesystem::exists(path + "/kiln_manifest.json", error);
  std::string text;
  Result<AdapterSource> adapter =
      isPlain ? openDirectory(path, text) : openCheckpointed(path, text, notes);
  if (!adapter.ok())
    return Status(adapter.status().code(),
                  "--adapter=" + path +
                      " is not the directory of an adapter: " +
                      adapter.status().message());
  std::string source = inQuotes(adapter->path + "/" + adapterConfigFile);
  Result<AdapterConfig> config = parseAdapterConfig(text, source);
  if (!config.ok())
    return config.status();
  Status status =
      checkOptions(description, config->lora, source, adapter->path);
  if (!status.ok())
    return status;
  if (holdsWeights(config->base))
    adapter->namedBase = config->base;
  return adapter;
}

Status loadAdapter(Engine &engine, int rank, InputFile file,
                   std::vector<std::string> &notes) {
  Result<ModelWeights> weights = ModelWeights::open(std::move(file));
  if (!weights.ok())
    return weights.status();
  notes.insert(notes.end(), weights->warnings().begin(),
               weights->warnings().end());
  const Description &description = engine.description();
  std::vector<size_t> indexes = adapterStates(description);
  std::vector<ExpectedTensor> expected;
  std::set<std::string> names;
  for (size_t i : indexes) {
    const StateInfo &state = description.states[i];
    expected.push_back({state.sourceName, {}, state.weightShape()});
    names.insert(state.sourceName);
  }
  Result<std::vector<const TensorInfo *>> found = weights->match(expected);
  if (!found.ok())
    return found.status();
  for (const std::string &name : weights->names())
    if (!names.count(name))
      return Status::badInput(
          inQuotes(weights->path()) + " has tensor " + inQuotes(name) +
          ", but this executable has no adapter of this layer: compile it with "
          "kilnc --adapter=" +
          parentPath(weights->path()));
  return readStates(engine, rank, *weights, indexes, *found);
}

} // namespace kiln::runtime
