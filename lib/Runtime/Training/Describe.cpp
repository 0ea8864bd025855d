//===- Describe.cpp - Text of --describe ----------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Describe.h"

#include "kiln/Support/GradientCompression.h"
#include "kiln/Support/Json.h"

#include <map>
#include <sstream>

using namespace kiln::support;

namespace kiln::runtime {

int64_t parameterCount(const Description &description) {
  int64_t count = 0;
  for (const StateInfo &state : description.states)
    if (state.role == StateRole::Parameter)
      count += state.weightElements();
  return count;
}

int64_t trainableCount(const Description &description) {
  int64_t count = 0;
  for (const StateInfo &state : description.states)
    if (state.role == StateRole::Parameter && state.trainable)
      count += state.weightElements();
  return count;
}

/// Returns the plan without its list of buffers.
static nlohmann::json planFigures(const Description &description) {
  JsonLimits limits;
  limits.maxBytes = std::size_t(1) << 30;
  Result<nlohmann::json> plan = parseJson(description.plan, "plan", limits);
  nlohmann::json figures = nlohmann::json::object();
  if (!plan.ok() || !plan->is_object())
    return figures;
  for (auto &[name, value] : plan->items())
    if (name != "buffers")
      figures[name] = value;
  return figures;
}

std::string meshText(const Description &description) {
  if (description.mesh.sizeOf(dataAxis) == description.ranks())
    return "";
  std::string text;
  for (const MeshAxis &axis : description.mesh.axes)
    text += (text.empty() ? " (" : ", ") + axis.name + "=" +
            std::to_string(axis.size);
  return text + ")";
}

/// Returns a line that counts the sharded states, or an empty string if there
/// are none. The line contains two kinds of numbers, such as "8, 1/2 of each on
/// each rank" for 8 states that are divided over two ranks, and "3 on
/// data-parallel rank 1" for 3 states that only this rank stores.
static std::string shardedStates(const Description &description) {
  std::map<int64_t, int64_t> states, ofOwners;
  for (const StateInfo &state : description.states)
    if (state.owner() >= 0)
      ++ofOwners[state.owner()];
    else if (state.isSharded())
      ++states[state.parts(description.mesh)];
  std::string text;
  for (auto [ranks, count] : states)
    text += (text.empty() ? "sharded states: " : "; ") + std::to_string(count) +
            ", 1/" + std::to_string(ranks) + " of each on each rank";
  for (auto [rank, count] : ofOwners)
    text += (text.empty() ? "sharded states: " : "; ") + std::to_string(count) +
            " on data-parallel rank " + std::to_string(rank);
  return text.empty() ? "" : text + "\n";
}

/// Returns a line with the compression of gradients that ranks sum, or an empty
/// string if there is none.
static std::string compressedGradients(const Description &description) {
  for (const auto &[encoding, count] : description.training.lossy)
    if (isOfGradients(encoding))
      return "compressed gradients: " + encoding + " of " +
             std::to_string(count) + "\n";
  return "";
}

std::string describeText(const Description &description) {
  const ModelInfo &model = description.model;
  const BuildInfo &build = description.build;
  const TargetInfo &target = description.target;
  std::ostringstream out;
  out << "kiln: " << build.version << "\n"
      << "model: " << model.name << " (" << model.type << ")\n"
      << "parameters: " << parameterCount(description) << "\n"
      << "trainable parameters: " << trainableCount(description) << "\n"
      << "vocabulary: " << model.vocabSize << "\n"
      << "batch: " << model.batch << " sequences of " << model.sequenceLength
      << " tokens, " << build.microbatches << " micro-batches\n"
      << "ranks: " << description.ranks() << meshText(description) << "\n"
      << shardedStates(description)
      << (description.syncEvery > 1
              ? "averages: every " + std::to_string(description.syncEvery) +
                    " steps\n"
              : "")
      << compressedGradients(description)
      << "global batch: " << description.globalBatch() << " sequences\n"
      << "optimizer: " << build.optimizer << "\n"
      << "lossy: " << (build.lossy.empty() ? "none" : build.lossy) << "\n"
      << "lora: "
      << (description.lora ? loraOptions(*description.lora) : "none") << "\n"
      << "precision: " << build.precision << "\n"
      << "dropout: " << build.dropout << "\n"
      << "clip: " << (build.clip ? "on" : "off") << "\n"
      << "eval: " << (build.eval ? "on" : "off") << "\n"
      << "max threads: " << build.maxThreads << "\n"
      << "target: " << build.target << " (" << target.cpu << ")\n"
      << "blas: " << target.blas << "\n"
      << "machine file: " << target.machine << "\n";
  if (description.hostArenaBytes > 0) {
    auto rate = [](double bytesPerSecond) {
      std::ostringstream text;
      text << bytesPerSecond << " bytes per second";
      return bytesPerSecond > 0 ? text.str()
                                : std::string("rate of memory copies");
    };
    out << "host arena: " << description.hostArenaBytes << " bytes\n"
        << "link to the host: " << rate(description.link.outBytesPerSecond)
        << "\n"
        << "link from the host: " << rate(description.link.inBytesPerSecond)
        << "\n";
  }
  std::string programs;
  for (const ProgramInfo &program : description.programs)
    programs += (programs.empty() ? "" : ", ") + program.name;
  out << "programs: " << programs << "\n";
  std::string files;
  for (const EmbeddedFile &file : model.files)
    files += (files.empty() ? "" : ", ") + file.name;
  out << "embedded files: " << files << "\n";
  nlohmann::json figures = planFigures(description);
  for (auto &[name, value] : figures.items())
    out << "plan " << name << ": "
        << (value.is_string() ? value.get<std::string>() : value.dump())
        << "\n";
  out << "command line: " << build.commandLine << "\n";
  return out.str();
}

void addDescription(LogLine &line, const Description &description) {
  const ModelInfo &model = description.model;
  const BuildInfo &build = description.build;
  line.text("kiln", build.version)
      .text("model", model.name)
      .text("model_type", model.type)
      .integer("parameters", parameterCount(description))
      .integer("batch", model.batch)
      .integer("ranks", description.ranks())
      .integer("global_batch", description.globalBatch())
      .integer("sequence_length", model.sequenceLength)
      .text("optimizer", build.optimizer)
      .text("lora", description.lora ? loraOptions(*description.lora) : "none")
      .text("precision", build.precision)
      .text("target", build.target);
  nlohmann::json figures = planFigures(description);
  // If `figures` contains "microbatches", the loop below adds it.
  if (!figures.contains("microbatches"))
    line.integer("microbatches", build.microbatches);
  for (auto &[name, value] : figures.items())
    line.json(name, value.dump());
}

} // namespace kiln::runtime
