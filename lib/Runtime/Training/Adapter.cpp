//===- Adapter.cpp - Files of low-rank adapters ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Adapter.h"

#include "States.h"
#include "TrainingInfo.h"
#include "kiln/Support/InputFile.h"
#include "kiln/Support/Json.h"
#include "kiln/Support/JsonReader.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/ModelWeights.h"
#include "kiln/Support/Process.h"
#include "kiln/Support/UnusedTensors.h"

#include <algorithm>
#include <filesystem>

using namespace kiln::support;

namespace kiln::runtime {

static constexpr uint64_t maxConfigBytes = 1 << 20;
static constexpr size_t hashDigits = 32;

nlohmann::json baseJson(const BaseReference &base) {
  if (base.path.empty())
    return {{"initial_values", true}};
  return {{"path", base.path}, {"tensors_xxh3_128", base.hash}};
}

Result<BaseReference> parseBase(const nlohmann::json &json,
                                const std::string &source) {
  ReadFailure failure(ExitCode::BadInput, source,
                      "the manifest is not one that kiln wrote: choose "
                      "another checkpoint");
  Node root(json, failure);
  BaseReference base;
  if (root.find("initial_values"))
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
    root.at("path").fail("is not a path");
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

Result<std::string> checkAdapter(const Description &description,
                                 const std::string &directory) {
  std::string file = directory + "/" + adapterConfigFile;
  Result<std::string> text = readSmallFile(file, maxConfigBytes);
  if (!text.ok())
    return Status::badInput(
        "--adapter=" + directory +
        " is not the directory of an adapter: " + text.status().message());
  std::string source = inQuotes(file);
  Result<LoraConfig> config = parseAdapterConfig(*text, source);
  if (!config.ok())
    return config.status();
  const LoraConfig &built = *description.lora;
  if (config->rank != built.rank || config->scale() != built.scale())
    return Status::badInput(
        source + ": the adapter has r=" + std::to_string(config->rank) +
        " and a scale of " + numberText(config->scale()) +
        ", but this executable was compiled for r=" +
        std::to_string(built.rank) + " and a scale of " +
        numberText(built.scale()) +
        ": compile it with kilnc --adapter=" + directory);
  Result<nlohmann::json> json = parseJson(*text, source);
  if (!json.ok())
    return json.status();
  auto base = json->find("base_model_name_or_path");
  if (base == json->end() || !base->is_string())
    return std::string();
  std::string path = base->get<std::string>();
  return holdsWeights(path) ? path : std::string();
}

/// Returns the tensors that the states of an adapter have in files.
static std::vector<ExpectedTensor>
expectedFactors(const Description &description,
                const std::vector<size_t> &indexes) {
  std::vector<ExpectedTensor> expected;
  for (size_t i : indexes)
    expected.push_back(
        {description.states[i].sourceName, {}, description.states[i].shape});
  return expected;
}

Status loadAdapter(Engine &engine, const std::string &directory,
                   std::vector<std::string> &notes) {
  Result<ModelWeights> weights =
      ModelWeights::open(directory + "/" + adapterWeightsFile);
  if (!weights.ok())
    return weights.status();
  notes.insert(notes.end(), weights->warnings().begin(),
               weights->warnings().end());
  const Description &description = engine.description();
  std::vector<size_t> indexes = adapterStates(description);
  std::vector<ExpectedTensor> expected = expectedFactors(description, indexes);
  Result<std::vector<const TensorInfo *>> found = weights->match(expected);
  if (!found.ok())
    return found.status();
  Status status = checkUnusedTensors(*weights, expected, *found, {});
  for (size_t i = 0; status.ok() && i < indexes.size(); ++i) {
    const StateInfo &state = description.states[indexes[i]];
    status = checkStop();
    if (status.ok())
      status =
          engine.accessState(indexes[i], HostAccess::Write, [&](char *data) {
            return weights->read((*found)[i]->name, state.type, data,
                                 uint64_t(state.bytes()));
          });
  }
  return status;
}

} // namespace kiln::runtime
