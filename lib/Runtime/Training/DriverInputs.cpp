//===- DriverInputs.cpp - Flags, input and output files of a run ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The part of TrainingDriver.h that checks the flags and opens all files,
// before any long operation.
//
//===----------------------------------------------------------------------===//

#include "OutputPaths.h"
#include "RateFlags.h"
#include "TrainingDriver.h"
#include "kiln/Support/Hash.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/ModelWeights.h"

#include <algorithm>
#include <filesystem>

using namespace kiln::support;

namespace kiln::runtime {

static bool hasGradients(const Description &description) {
  const ProgramInfo *train = description.findProgram("train");
  return train &&
         std::any_of(train->outputs.begin(), train->outputs.end(), isGradient);
}

/// Returns true if it is possible that a gradient output contains only a shard
/// of the gradient.
static bool dividesGradients(const Description &description) {
  const ProgramInfo *train = description.findProgram("train");
  if (!train)
    return false;
  for (const ValueInfo &output : train->outputs)
    for (const StateInfo &state : description.states)
      if (state.isSharded() &&
          output.name == std::string(gradientPrefix) + state.name &&
          (output.elements() != state.globalElements() ||
           state.isDividedOver(tensorAxis)))
        return true;
  return false;
}

static bool scalesGradients(const Description &description) {
  const ProgramInfo *train = description.findProgram("train");
  return train && std::any_of(train->inputs.begin(), train->inputs.end(),
                              [](const InputInfo &input) {
                                return input.name == "gradient_scale";
                              });
}

/// Checks flags against the properties of this executable.
Status Driver::checkOptions() {
  auto usage = [](const std::string &message) {
    return Status(ExitCode::Usage, message);
  };
  const BuildInfo &build = description_.build;
  if (options_.threads > build.maxThreads)
    return usage("--threads=" + std::to_string(options_.threads) +
                 " exceeds the maximum of " + std::to_string(build.maxThreads) +
                 " that this executable was compiled for; compile with a "
                 "larger --max-threads");
  if (options_.isGiven("--peer-timeout") && description_.ranks() == 1)
    return usage("--peer-timeout: this executable was compiled for one rank; "
                 "compile it with --mesh=dp=N");
  if (ranks_.size() > 1)
    for (auto [flag, isGiven] :
         {std::pair("--lockstep", options_.lockstep >= 0),
          std::pair("--check-ops", !options_.checkOps.empty()),
          std::pair("--check-trace", !options_.checkTrace.empty())})
      if (isGiven)
        return usage(std::string(flag) +
                     " is not supported with several ranks");
  for (auto [flag, steps] : {std::pair("--save-every", options_.saveEvery),
                             std::pair("--val-every", options_.valEvery)})
    if (steps % description_.syncEvery != 0)
      return usage(
          std::string(flag) + "=" + std::to_string(steps) +
          ": ranks have equal states only every " +
          std::to_string(description_.syncEvery) +
          " steps (--sync-every of kilnc); give a multiple of that number");
  if (options_.gradClipGiven && options_.gradClip > 0 && !build.clip)
    return usage("--grad-clip: this executable was compiled with --clip=off; "
                 "compile it with --clip=on");
  if (options_.isGiven("--loss-scale") && !scalesGradients(description_))
    return usage("--loss-scale: this executable does not scale gradients; "
                 "compile it with --precision=fp16");
  if (!options_.valData.empty() && !findProgram(description_, "evaluate"))
    return usage("--val-data: this executable was compiled with --eval=off; "
                 "compile it with --eval=on");
  if (options_.generate > 0 && !findProgram(description_, "generate"))
    return usage(findProgram(description_, "evaluate")
                     ? "--generate: the loss of this model is not a cross "
                       "entropy with one row of logits per token, so the "
                       "executable cannot generate; remove the flag"
                     : "--generate: this executable was compiled with "
                       "--eval=off; compile it with --eval=on");
  if (!options_.dumpGradients.empty() && !hasGradients(description_))
    return usage("--dump-gradients: the executable keeps no gradients; compile "
                 "it with --emit-gradients");
  if (!options_.dumpGradients.empty() && dividesGradients(description_))
    return usage("--dump-gradients: each rank computes only a shard of the "
                 "gradients; compile the model without sharding them");
  if (!description_.lora)
    for (auto [flag, value] :
         {std::pair("--adapter", &options_.adapter),
          std::pair("--base", &options_.base),
          std::pair("--save-merged", &options_.saveMerged)})
      if (!value->empty())
        return usage(std::string(flag) +
                     ": this executable was compiled without adapters; "
                     "compile it with --lora");
  std::error_code error;
  if (!options_.init.empty() && !holdsWeights(options_.init) &&
      std::filesystem::exists(options_.init + "/" + adapterConfigFile, error))
    return usage("--init=" + options_.init +
                 " is an adapter, and not the weights of a model; start from "
                 "it with --adapter, or continue its run with --resume");
  if (description_.model.hasWeights && options_.init.empty() &&
      options_.adapter.empty() && !options_.fromScratch &&
      options_.resume.empty() && !options_.onlyChecks())
    return usage("the model directory holds trained weights: choose --init=" +
                 std::string("DIR to start from them, or --from-scratch"));
  return Status();
}

static Status openTokens(const std::string &path, const std::string &mask,
                         int64_t vocabulary, int64_t length,
                         std::optional<uint64_t> shuffle,
                         std::optional<TokenFile> &file) {
  Result<TokenFile> opened = TokenFile::open(path, vocabulary, shuffle);
  if (!opened.ok())
    return opened.status();
  Status status = opened->checkLength(length);
  if (status.ok() && !mask.empty())
    status = opened->openMask(mask);
  if (!status.ok())
    return status;
  file.emplace(std::move(*opened));
  return Status();
}

/// Opens the checkpoint from which the run resumes, and sets progress_ to the
/// progress of the checkpoint. If the run continues training, also sets each
/// option that the command line omits to its value in the checkpoint
/// (adoptChoices()).
Status Driver::openResumed() {
  Result<ResumePoint> opened = openCheckpoint(options_.resume, engine_, notes_);
  if (!opened.ok())
    return opened.status();
  resumed_.emplace(std::move(*opened));
  Progress &found = resumed_->progress;
  if (options_.seedGiven && options_.seed != found.seed)
    return Status(ExitCode::Usage,
                  "--seed=" + std::to_string(options_.seed) +
                      " contradicts the checkpoint, which was made with " +
                      std::to_string(found.seed));
  // If no sequence has been read yet, --shuffle can still change the data
  // order.
  if (options_.shuffle && found.sequence == 0)
    found.shuffle = options_.shuffle;
  if (options_.shuffle && options_.shuffle != found.shuffle)
    return Status(ExitCode::Usage,
                  "--shuffle=" + std::to_string(*options_.shuffle) +
                      " contradicts the checkpoint, which was made " +
                      (found.shuffle ? "with " + std::to_string(*found.shuffle)
                                     : std::string("without")));
  progress_ = found;
  return options_.continues() ? adoptChoices(*resumed_, options_, changes_)
                              : Status();
}

/// A run without updates saves its checkpoint with the step number of the
/// checkpoint from which it resumes. If it saves to the same directory, it
/// replaces that checkpoint. Rejects the run if the new checkpoint would lack
/// the optimizer states of the replaced one, because there may be no other copy
/// of these states.
Status Driver::checkNothingIsReplaced() const {
  const Progress &found = resumed_->progress;
  bool doesSteps = trains() && options_.steps > found.step;
  if (doesSteps || resumed_->loadsStates || found.step == 0 || !files_.save)
    return Status();
  std::filesystem::path directory =
      std::filesystem::path(resumed_->found.path + "/..").lexically_normal();
  std::error_code error;
  if (!std::filesystem::equivalent(directory, options_.save, error))
    return Status();
  return Status(ExitCode::Usage,
                "--save=" + options_.save + " would replace checkpoint " +
                    inQuotes(resumed_->found.path) +
                    " by one without the states of its optimizer, since no "
                    "step is done; choose another directory");
}

/// Determines the Trajectory that the checkpoints of this run record: the
/// options, and properties of the executable and of the data. If the run
/// resumes from a checkpoint, checks that this Trajectory agrees with the one
/// in the checkpoint.
Status Driver::settleTrajectory() {
  if (trains()) {
    Result<DataIdentity> data = files_.data->identity();
    if (!data.ok())
      return data.status();
    if (files_.inputs) {
      Result<std::string> inputs = files_.inputs->identity();
      if (!inputs.ok())
        return inputs.status();
      StreamHash both;
      both.update(data->hash.data(), data->hash.size());
      both.update(inputs->data(), inputs->size());
      data->hash = both.hex();
    }
    record_.trajectory = {choicesOf(options_, description_.build.clip),
                          builtFactsOf(description_), *data};
  }
  if (!resumed_)
    return Status();
  if (trains()) {
    Status status =
        compareTrajectories(*record_.trajectory, options_, *resumed_, changes_);
    if (!status.ok())
      return status;
  } else {
    record_ = keptRecord(builtFactsOf(description_), *resumed_, changes_);
    // The changes affect only the checkpoints that this run saves. If the run
    // saves no checkpoint, there is no change to report.
    if (options_.save.empty())
      changes_.clear();
  }
  if (Status status = checkNothingIsReplaced(); !status.ok())
    return status;
  progress_ = resumed_->progress;
  printToStderr(resumeLine(*resumed_, options_));
  for (const std::string &change : changes_)
    printToStderr("note: " + change);
  if (trains() && !resumed_->record.isKnown)
    warn(unknownTrajectory(*resumed_));
  if (trains() && progress_.step == options_.steps)
    printToStderr("note: this run is finished: its " +
                  std::to_string(options_.steps) +
                  " steps are done; to continue it, give a larger --steps=N");
  return Status();
}

/// Opens the tensors for the inputs that the programs of this run declare.
Status Driver::openDeclaredInputs() {
  std::vector<std::string> programs;
  if (files_.data)
    programs.push_back("train");
  if (options_.generate > 0) {
    programs.push_back("generate");
    if (const ProgramInfo *generate = description_.findProgram("generate"))
      for (const InputInfo &input : generate->inputs)
        if (input.isData && input.isBatched)
          return Status(ExitCode::Usage,
                        "--generate has no value for the input " +
                            inQuotes(input.name) +
                            ", which has a row per sequence of the data");
  }
  int64_t length = description_.model.sequenceLength;
  Status status =
      openInputTensors(options_.inputs, "--inputs", description_, programs,
                       files_.data, length, files_.inputs);
  if (!status.ok() || !files_.valData)
    return status;
  return openInputTensors(options_.valInputs, "--val-inputs", description_,
                          {"evaluate"}, files_.valData, length,
                          files_.valInputs);
}

Status Driver::openAdapters() {
  if (!description_.lora)
    return Status();
  Result<AdapterStart> start = AdapterStart::open(
      description_, options_, resumed_ ? &*resumed_ : nullptr, notes_);
  if (start.ok())
    adapters_.emplace(std::move(*start));
  return start.status();
}

/// Opens the input files. Called before all long operations, so that errors are
/// reported early.
Status Driver::openInputs() {
  const ModelInfo &model = description_.model;
  progress_.seed = options_.seed;
  progress_.shuffle = options_.shuffle;
  if (!options_.resume.empty()) {
    Status status = openResumed();
    if (!status.ok())
      return status;
  }
  if (!options_.data.empty()) {
    Status status =
        openTokens(options_.data, options_.lossMask, model.vocabSize,
                   model.sequenceLength, progress_.shuffle, files_.data);
    if (!status.ok())
      return status;
  }
  if (!options_.valData.empty()) {
    Status status =
        openTokens(options_.valData, options_.valLossMask, model.vocabSize,
                   model.sequenceLength, {}, files_.valData);
    if (!status.ok())
      return status;
  }
  Status status = openDeclaredInputs();
  if (status.ok())
    status = openAdapters();
  if (status.ok() && trains())
    status = checkPeakRate(options_.schedule, description_.globalBatch());
  if (status.ok())
    status = settleTrajectory();
  if (status.ok())
    warnOfBytes();
  return status;
}

/// Warns if the run is valid but unusual.
void Driver::warnOfUnusualRuns() const {
  if (options_.steps == 0 || !files_.data)
    return;
  const ScheduleOptions &schedule = options_.schedule;
  if (schedule.warmupSteps > options_.steps)
    warn("--warmup-steps=" + std::to_string(schedule.warmupSteps) +
         " is more than --steps=" + std::to_string(options_.steps) +
         ": the run ends before the learning rate reaches its peak");
  const ModelInfo &model = description_.model;
  int64_t sequences = files_.data->sequencesPerEpoch(model.sequenceLength);
  int64_t batch = description_.globalBatch();
  if (sequences < batch)
    warn(inQuotes(files_.data->path()) + " has " + std::to_string(sequences) +
         (sequences == 1 ? " sequence of " : " sequences of ") +
         std::to_string(model.sequenceLength) +
         " tokens, fewer than the batch of " + std::to_string(batch) +
         ": every batch contains sequences more than once; use more data, or "
         "compile with a smaller --batch or --seq");
}

/// Returns true if `resume`, the value of --resume, is `directory` or a
/// checkpoint in it. Also returns true if `resume` does not exist, which is
/// reported when the checkpoint is read.
static bool isFrom(const std::string &resume, const std::string &directory) {
  std::error_code error;
  std::filesystem::path from = std::filesystem::canonical(resume, error);
  if (error)
    return !resume.empty();
  std::filesystem::path to = std::filesystem::canonical(directory, error);
  return !error && (from == to || from.parent_path() == to);
}

/// Opens the output files. Called before all long operations, so that errors
/// are reported early. Existing files are unchanged until training starts. If
/// the run fails before training starts, the files that it created are removed.
Status Driver::openOutputs() {
  if (!ranks_.isFirst()) {
    records_.emplace(Records::silent());
    return Status();
  }
  Status possible = tryOutputs(options_);
  if (possible.ok() && !options_.saveMerged.empty())
    possible = tryMergedDirectory(description_, options_);
  if (!possible.ok() || options_.onlyChecks())
    return possible;
  if (!options_.save.empty()) {
    Result<CheckpointDir> save = CheckpointDir::open(options_.save);
    if (!save.ok())
      return save.status();
    files_.save.emplace(std::move(*save));
    std::vector<int64_t> steps = files_.save->steps();
    if (!steps.empty() && !isFrom(options_.resume, options_.save))
      return Status(ExitCode::Usage,
                    "--save=" + options_.save +
                        " already holds checkpoints (newest: step " +
                        std::to_string(steps.back()) +
                        "); continue from them with --resume=" + options_.save +
                        ", or choose another directory");
    Result<uint64_t> bytes = checkpointBytes(description_);
    if (!bytes.ok())
      return bytes.status();
    Status space = files_.save->checkFreeSpace(*bytes);
    if (!space.ok())
      return space;
  }
  Result<Records> records = Records::open(options_, ranks_.size() > 1);
  if (!records.ok())
    return records.status();
  records_.emplace(std::move(*records));
  return Status();
}

/// Fails if the ranks have different programs, flags or data. The states, which
/// depend on the files of --init and --resume, are compared later.
Status Driver::compareRanks() {
  if (ranks_.size() == 1)
    return Status();
  uint64_t flags = 0;
  for (size_t i = 0; i < options_.commandLine.size(); ++i) {
    const std::string &flag = options_.commandLine[i];
    if (flag == "--threads" || flag == "--peer-timeout")
      ++i; // The value is the next argument.
    else if (flag.rfind("--threads=", 0) != 0 &&
             flag.rfind("--peer-timeout=", 0) != 0)
      flags = keyedHash(flag, flags + 1);
  }
  Status status =
      ranks_.compare({{"programs", description_.hash}, {"flags", flags}});
  if (!status.ok())
    return status;
  std::vector<RankFact> facts;
  for (auto [name, file] : {std::pair("training tokens", &files_.data),
                            std::pair("validation tokens", &files_.valData)}) {
    if (!*file)
      continue;
    Result<DataIdentity> data = (*file)->identity();
    status = ranks_.vote("the start", data.status(), {}, Patience::Unlimited)
                 .status();
    if (!status.ok())
      return status;
    facts.push_back({name, keyedHash(data->hash, uint64_t(data->tokens))});
  }
  facts.push_back({"steps and seeds of the resumed checkpoints",
                   keyedHash(std::to_string(progress_.step) + " " +
                                 std::to_string(progress_.sequence),
                             progress_.seed)});
  // The ranks may read shards from different copies of the files. Compare the
  // hashes of the files now, because the shards differ and cannot be compared
  // later.
  if (resumed_) {
    uint64_t files = 0;
    for (const CheckpointFile &file : resumed_->found.manifest.files)
      files = keyedHash(file.name + " " + file.hash, files);
    facts.push_back({"files of the resumed checkpoints", files});
  }
  return ranks_.compare(facts);
}

/// Warns if text is read or written with one byte per token although the
/// vocabulary of the model does not have 256 tokens.
void Driver::warnOfBytes() const {
  int64_t vocabulary = description_.model.vocabSize;
  if (vocabulary == 256)
    return;
  std::string what;
  auto add = [&](const std::string &name) {
    what += (what.empty() ? "" : ", ") + name;
  };
  for (const std::optional<TokenFile> *file : {&files_.data, &files_.valData})
    if (*file && (*file)->holdsBytes())
      add(inQuotes((*file)->path()));
  if (!options_.prompt.empty())
    add("--prompt");
  if (options_.generate > 0)
    add("the text of --generate");
  if (!what.empty())
    warn("the model's vocabulary has " + std::to_string(vocabulary) +
         " tokens, but the executable has no tokenizer, so each byte is one "
         "token in " +
         what);
}

} // namespace kiln::runtime
