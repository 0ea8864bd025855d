//===- Checkpoint.cpp - Contents of checkpoints ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Checkpoint.h"

#include "States.h"
#include "TrainingInfo.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/GradientCompression.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/ModelWeights.h"
#include "kiln/Support/Process.h"

#include <algorithm>

using namespace kiln::abi;
using namespace kiln::support;

namespace kiln::runtime {

static constexpr const char *modelFile = "model.safetensors";
static constexpr const char *optimizerFile = "optimizer.safetensors";

/// Suffix of the name of a state that stores the 8-bit codes of an encoded
/// optimizer moment.
static constexpr std::string_view codesSuffix = ".codes";

/// Returns the name of an optimizer state in the checkpoint: the name of the
/// parameter, a suffix as in PyTorch, and ".codes" or ".scales" if the state is
/// a part of an encoded moment.
static std::string optimizerName(const Description &description,
                                 const StateInfo &state) {
  auto parameter = std::find_if(
      description.states.begin(), description.states.end(),
      [&](const StateInfo &other) { return other.name == state.of; });
  size_t end = std::min(state.slot.find('.'), state.slot.size());
  std::string slot = state.slot.substr(0, end);
  slot = slot == "m" ? "exp_avg" : slot == "v" ? "exp_avg_sq" : slot;
  slot += state.slot.substr(end);
  return (parameter == description.states.end() ? state.of
                                                : parameter->sourceName) +
         "." + slot;
}

/// Returns the indexes of the states that weightFile() contains.
static std::vector<size_t> weightStates(const Description &description) {
  if (description.lora)
    return adapterStates(description);
  std::vector<size_t> indexes;
  for (size_t i = 0; i < description.states.size(); ++i)
    if (isWeight(description.states[i]))
      indexes.push_back(i);
  return indexes;
}

static const char *weightFile(const Description &description) {
  return description.lora ? adapterWeightsFile : modelFile;
}

static std::vector<size_t> optimizerStates(const Description &description) {
  std::vector<size_t> indexes;
  for (size_t i = 0; i < description.states.size(); ++i)
    if (description.states[i].role == StateRole::Optimizer)
      indexes.push_back(i);
  return indexes;
}

static std::vector<TensorDeclaration>
declare(const Description &description, const std::vector<size_t> &indexes) {
  std::vector<TensorDeclaration> tensors;
  for (size_t i : indexes) {
    const StateInfo &state = description.states[i];
    tensors.push_back({state.role == StateRole::Optimizer
                           ? optimizerName(description, state)
                           : state.sourceName,
                       state.type, state.globalShape});
  }
  return tensors;
}

Result<uint64_t> checkpointBytes(const Description &description) {
  // Upper bound on the size of the manifest and all other small files.
  uint64_t total = 1 << 20;
  for (const EmbeddedFile &file : description.model.files)
    total += file.bytes.size();
  for (const std::vector<size_t> &indexes :
       {weightStates(description), optimizerStates(description)}) {
    Result<uint64_t> bytes =
        safeTensorsFileBytes(declare(description, indexes));
    if (!bytes.ok())
      return bytes.status();
    total += *bytes;
  }
  return total;
}

static Status addStates(CheckpointStage &stage, const std::string &name,
                        WholeStates &states,
                        const std::vector<size_t> &indexes) {
  return stage.addTensors(name, declare(states.description(), indexes),
                          [&](SafeTensorsWriter &writer) {
                            for (size_t i : indexes) {
                              Status status = states.read(
                                  i, [&](const char *data, int64_t bytes) {
                                    return writer.write(data, uint64_t(bytes));
                                  });
                              if (!status.ok())
                                return status;
                            }
                            return Status();
                          });
}

/// Returns the text of trainer_state.json, which is written for tools that read
/// Hugging Face checkpoints.
static std::string trainerState(const Description &description,
                                const Progress &progress,
                                const RunFacts &facts) {
  nlohmann::json state = {
      {"global_step", progress.step},
      {"max_steps", facts.totalSteps},
      {"epoch", facts.epoch},
      {"num_input_tokens_seen", progress.tokens},
      {"train_batch_size", description.model.batch},
      {"log_history", nlohmann::json::array()},
  };
  return state.dump(2) + "\n";
}

/// Returns true for files that describe a whole model. The directory of an
/// adapter does not have them: libraries read them from the base model.
static bool isModelConfig(const std::string &file) {
  return file == "config.json" || file == "generation_config.json";
}

Status saveCheckpoint(CheckpointDir &directory, WholeStates &states,
                      const Progress &progress, const TrajectoryRecord &record,
                      const RunFacts &facts, const BaseReference &base,
                      int64_t keep, std::vector<std::string> &notes) {
  const Description &description = states.description();
  nlohmann::json training = {{"step", progress.step},
                             {"sequence", progress.sequence},
                             {"tokens", progress.tokens},
                             {"seed", progress.seed},
                             {"shuffle", nullptr},
                             {"optimizer_start", progress.optimizerStart}};
  if (progress.shuffle)
    training["shuffle"] = *progress.shuffle;
  if (const std::optional<LossScale> &scale = progress.lossScale)
    training["loss_scale"] = {{"scale", scale->scale},
                              {"clean_steps", scale->cleanSteps},
                              {"skipped", scale->skipped},
                              {"skipped_in_a_row", scale->skippedInARow}};
  nlohmann::json extra = {{"training", training},
                          {"optimizer", description.build.optimizer},
                          {"precision", description.build.precision},
                          {"kiln", description.build.version},
                          {"cpu", description.target.cpu},
                          {"library", states.engine().libraryName()}};
  if (record.isKnown)
    extra["trajectory"] = record.trajectory ? trajectoryJson(*record.trajectory)
                                            : nlohmann::json();
  if (description.lora)
    extra["base"] = baseJson(base);
  auto fill = [&](CheckpointStage &stage) {
    for (const EmbeddedFile &file : description.model.files) {
      if (description.lora && isModelConfig(file.name))
        continue;
      Status status = stage.addText(file.name, file.bytes);
      if (!status.ok())
        return status;
    }
    if (description.lora) {
      Status status = stage.addText(adapterConfigFile,
                                    adapterConfigText(description, base));
      if (!status.ok())
        return status;
    }
    Status status = stage.addText("trainer_state.json",
                                  trainerState(description, progress, facts));
    if (status.ok())
      status = addStates(stage, weightFile(description), states,
                         weightStates(description));
    std::vector<size_t> moments = optimizerStates(description);
    if (status.ok() && !moments.empty())
      status = addStates(stage, optimizerFile, states, moments);
    return status;
  };
  return directory.save(progress.step, fill, extra,
                        int(std::min<int64_t>(keep, INT32_MAX)), notes);
}

Status sendCheckpoint(WholeStates &states) {
  const Description &description = states.description();
  Status status = states.send(weightStates(description));
  return status.ok() ? states.send(optimizerStates(description)) : status;
}

/// Reads a nonnegative integer member of the manifest.
static bool readCount(const nlohmann::json &object, const char *key,
                      int64_t &value) {
  auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned() ||
      found->get<uint64_t>() > uint64_t(mostCount))
    return false;
  value = found->get<int64_t>();
  return true;
}

static bool readSeed(const nlohmann::json &object, const char *key,
                     uint64_t &value) {
  auto found = object.find(key);
  if (found == object.end() || !found->is_number_unsigned())
    return false;
  value = found->get<uint64_t>();
  return true;
}

static bool readLossScale(const nlohmann::json &object, LossScale &scale) {
  auto found = object.find("scale");
  if (found == object.end() || !found->is_number() ||
      !isLossScale(found->get<double>()))
    return false;
  scale.scale = found->get<double>();
  return readCount(object, "clean_steps", scale.cleanSteps) &&
         readCount(object, "skipped", scale.skipped) &&
         readCount(object, "skipped_in_a_row", scale.skippedInARow);
}

std::optional<Progress> readProgress(const CheckpointManifest &manifest) {
  const nlohmann::json &extra = manifest.extra;
  auto training = extra.is_object() ? extra.find("training") : extra.end();
  if (training == extra.end() || !training->is_object())
    return std::nullopt;
  Progress progress;
  if (!readCount(*training, "step", progress.step) ||
      !readCount(*training, "sequence", progress.sequence) ||
      !readCount(*training, "tokens", progress.tokens) ||
      !readSeed(*training, "seed", progress.seed) ||
      progress.step != manifest.step)
    return std::nullopt;
  auto shuffle = training->find("shuffle");
  if (shuffle == training->end())
    return std::nullopt;
  if (!shuffle->is_null() &&
      !readSeed(*training, "shuffle", progress.shuffle.emplace()))
    return std::nullopt;
  // Manifests of earlier formats lack the member "optimizer_start".
  if (training->contains("optimizer_start") &&
      (!readCount(*training, "optimizer_start", progress.optimizerStart) ||
       progress.optimizerStart > progress.step))
    return std::nullopt;
  if (auto scale = training->find("loss_scale"); scale != training->end())
    if (!readLossScale(*scale, progress.lossScale.emplace()) ||
        progress.appliedUpdates() < 0)
      return std::nullopt;
  return progress;
}

/// Returns the string member `key`, or "" if the manifest has no such member.
static std::string textOf(const nlohmann::json &extra, const char *key) {
  auto found = extra.find(key);
  return found != extra.end() && found->is_string() ? found->get<std::string>()
                                                    : "";
}

/// Reads the recorded trajectory of the checkpoint (the properties that
/// determine the losses), and determines whether this executable can use the
/// optimizer states of the checkpoint.
static Status readRecord(const TrainingInfo &now, ResumePoint &point) {
  const nlohmann::json &extra = point.found.manifest.extra;
  std::string optimizer = textOf(extra, "optimizer");
  point.optimizerName = optimizer.substr(0, optimizer.find(':'));
  auto json = extra.find("trajectory");
  point.record.isKnown = json != extra.end();
  if (!point.record.isKnown) {
    TrainingInfo then;
    then.updates = {{point.optimizerName, {}, "matrices"}};
    point.loadsStates =
        point.optimizerName.empty() || haveSameStates(then, now);
    return Status();
  }
  if (json->is_null())
    return Status();
  Result<Trajectory> trajectory =
      parseTrajectory(*json, "checkpoint " + inQuotes(point.found.path));
  if (!trajectory.ok())
    return trajectory.status();
  point.loadsStates = haveSameStates(trajectory->built.training, now);
  point.record.trajectory = std::move(*trajectory);
  return Status();
}

Result<ResumePoint> openCheckpoint(const std::string &path,
                                   const Engine &engine,
                                   std::vector<std::string> &notes) {
  Result<FoundCheckpoint> found = findCheckpoint(path);
  if (!found.ok())
    return found.status();
  notes.insert(notes.end(), found->notes.begin(), found->notes.end());
  std::optional<Progress> progress = readProgress(found->manifest);
  if (!progress)
    return Status::badInput(
        "checkpoint " + inQuotes(found->path) +
        " has a missing or invalid member 'training' in its "
        "manifest; choose a checkpoint that kiln saved");
  ResumePoint point;
  point.found = std::move(*found);
  point.progress = *progress;
  const Description &description = engine.description();
  Status status = readRecord(description.training, point);
  if (!status.ok())
    return status;
  auto base = point.found.manifest.extra.find("base");
  bool hasBase = base != point.found.manifest.extra.end();
  if (hasBase && !description.lora)
    return Status(ExitCode::Usage,
                  "checkpoint " + inQuotes(point.found.path) +
                      " has adapters, but this executable was compiled without "
                      "--lora");
  if (!hasBase && description.lora)
    return Status(ExitCode::Usage,
                  "checkpoint " + inQuotes(point.found.path) +
                      " has no adapters, but this executable trains adapters; "
                      "to adapt the weights of the checkpoint, use --init=" +
                      point.found.path);
  if (hasBase) {
    Result<BaseReference> reference =
        parseBase(*base, "checkpoint " + inQuotes(point.found.path));
    if (!reference.ok())
      return reference.status();
    if (std::string now = storageOf(description); reference->storage != now)
      notes.push_back("the checkpoint was made with a base model in " +
                      printable(reference->storage) +
                      ", this run stores its weights as " + now +
                      ": results will differ slightly");
    point.base = std::move(*reference);
  }
  auto compare = [&](const char *key, const std::string &now,
                     const char *effect) {
    std::string then = textOf(point.found.manifest.extra, key);
    if (then != now)
      notes.push_back("the checkpoint was made with " + std::string(key) + " " +
                      inQuotes(then) + ", this run uses " + inQuotes(now) +
                      ": " + effect);
  };
  compare("precision", description.build.precision,
          "its results differ from those that the first executable would give");
  const char *last = "results may differ in the last bits";
  compare("library", engine.libraryName(), last);
  compare("cpu", description.target.cpu, last);
  return point;
}

/// Reports an error if the checkpoint stores a moment as 8-bit codes and this
/// executable does not, or the other way around.
static Status checkEncodings(const ModelWeights &weights,
                             const std::vector<ExpectedTensor> &expected,
                             const std::string &path) {
  auto has = [&](const std::string &name) {
    return weights.find(name) != nullptr;
  };
  for (const ExpectedTensor &want : expected) {
    const std::string &name = want.name;
    bool isEncoded = name.size() > codesSuffix.size() &&
                     std::string_view(name).substr(
                         name.size() - codesSuffix.size()) == codesSuffix;
    std::string plain =
        isEncoded ? name.substr(0, name.size() - codesSuffix.size()) : name;
    std::string codes = plain + std::string(codesSuffix);
    if (has(plain) == has(codes) || has(codes) == isEncoded)
      continue;
    return Status(
        ExitCode::Usage,
        "checkpoint " + inQuotes(path) + " stores the moment " +
            inQuotes(plain) +
            (isEncoded ? " as numbers, but this executable stores it "
                         "as 8-bit codes"
                       : " as 8-bit codes, but this executable "
                         "stores it as numbers") +
            ": compile with the same --states, and the same --mesh if it "
            "has tp, or start from its weights with --init=" +
            path);
  }
  return Status();
}

/// Removes from `indexes` the states of the gradient compression that the
/// checkpoint lacks or has with another shape, for example because the
/// compression or the number of ranks has changed. These states keep their
/// initial values. `weights` is the file of the checkpoint that would contain
/// the states, or null if the checkpoint has no such file.
static void dropCompression(const ModelWeights *weights,
                            const Description &description,
                            std::vector<size_t> &indexes,
                            std::vector<std::string> &notes) {
  const std::vector<TensorDeclaration> tensors = declare(description, indexes);
  std::vector<size_t> kept;
  bool dropsErrors = false, dropsOthers = false;
  for (size_t i = 0; i < indexes.size(); ++i) {
    const std::string &slot = description.states[indexes[i]].slot;
    const TensorInfo *tensor =
        weights ? weights->find(tensors[i].name) : nullptr;
    if (!isCompressionSlot(slot) ||
        (tensor && tensor->shape == tensors[i].shape)) {
      kept.push_back(indexes[i]);
      continue;
    }
    (slot == errorSlot ? dropsErrors : dropsOthers) = true;
  }
  for (auto [drops, what] :
       {std::pair(dropsErrors,
                  "errors of compressed gradients begin with zero"),
        std::pair(dropsOthers, "bases, turns or signs of compressed gradients "
                               "begin with their initial values")})
    if (drops)
      notes.push_back(std::string(what) +
                      ": the checkpoint lacks them for this scheme, size or "
                      "mesh");
  indexes = std::move(kept);
}

static Status loadFile(const FoundCheckpoint &checkpoint,
                       const std::string &name, Engine &engine, int rank,
                       std::vector<size_t> indexes,
                       std::vector<std::string> &notes) {
  Result<InputFile> file = checkpoint.open(name);
  if (!file.ok())
    return file.status();
  Result<ModelWeights> weights = ModelWeights::open(std::move(*file));
  if (!weights.ok())
    return weights.status();
  notes.insert(notes.end(), weights->warnings().begin(),
               weights->warnings().end());
  const Description &description = engine.description();
  dropCompression(&*weights, description, indexes, notes);
  std::vector<ExpectedTensor> expected;
  for (const TensorDeclaration &tensor : declare(description, indexes))
    expected.push_back({tensor.name, {}, tensor.shape});
  if (Status status = checkEncodings(*weights, expected, checkpoint.path);
      !status.ok())
    return status;
  Result<std::vector<const TensorInfo *>> found = weights->match(expected);
  if (!found.ok())
    return found.status();
  for (size_t i = 0; i < indexes.size(); ++i) {
    const StateInfo &state = description.states[indexes[i]];
    ElementType then = (*found)[i]->type;
    if (state.role != StateRole::Optimizer || then == state.type)
      continue;
    notes.push_back("the checkpoint stores " + inQuotes((*found)[i]->name) +
                    " as " + std::string(infoOf(then).fileName) +
                    ", this run stores it as " +
                    std::string(infoOf(state.type).fileName) +
                    ": the states of the optimizer are converted");
    break;
  }
  return readStates(engine, rank, *weights, indexes, *found);
}

Status loadCheckpoint(const ResumePoint &point, Engine &engine, int rank,
                      std::vector<std::string> &notes) {
  const Description &description = engine.description();
  Status status;
  if (description.lora) {
    Result<InputFile> file = point.found.open(adapterWeightsFile);
    status = file.ok() ? loadAdapter(engine, rank, std::move(*file), notes)
                       : file.status();
  } else {
    status = loadFile(point.found, modelFile, engine, rank,
                      weightStates(description), notes);
  }
  std::vector<size_t> moments = optimizerStates(description);
  if (status.ok() && point.loadsStates &&
      !point.found.files.count(optimizerFile))
    dropCompression(nullptr, description, moments, notes);
  if (status.ok() && point.loadsStates && !moments.empty())
    status = loadFile(point.found, optimizerFile, engine, rank, moments, notes);
  return status;
}

} // namespace kiln::runtime
