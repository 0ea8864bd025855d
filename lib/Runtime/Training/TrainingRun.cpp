//===- TrainingRun.cpp - Steps, validation and checkpoints ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TrainingRun.h"

#include "NonFinite.h"
#include "States.h"
#include "Trace.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/OutputFile.h"
#include "kiln/Support/Process.h"
#include "kiln/Support/SafeTensors.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

using namespace kiln::support;

namespace kiln::runtime {

std::optional<size_t> findProgram(const Description &description,
                                  const std::string &name) {
  for (size_t i = 0; i < description.programs.size(); ++i)
    if (description.programs[i].name == name)
      return i;
  return std::nullopt;
}

SequenceSource sourceOf(TokenFile &file,
                        const std::optional<InputTensors> &inputs) {
  SequenceSource source;
  source.read = [&file](int64_t index, int64_t length, int32_t *tokens,
                        int32_t *targets) {
    return file.readSequence(index, length, tokens, targets);
  };
  source.number = [&file](int64_t index, int64_t length) {
    return file.sequenceNumber(index, length);
  };
  source.inputs = inputs ? &*inputs : nullptr;
  return source;
}

TrainingRun::TrainingRun(Engine &engine, const Options &options,
                         RunFiles &files, Records &records,
                         const TrajectoryRecord &record,
                         const Progress &progress, Ranks &ranks)
    : engine_(engine), options_(options), files_(files), records_(records),
      record_(record), progress_(progress),
      schedule_(options.schedule, options.steps,
                engine.description().globalBatch()),
      ranks_(ranks), firstStep_(progress.step) {}

Status TrainingRun::bind() {
  const Description &description = engine_.description();
  auto bindTo = [&](const char *name, std::optional<ProgramInputs> &inputs) {
    std::optional<size_t> program = findProgram(description, name);
    if (!program)
      return Status::error("the executable has no program '" +
                           std::string(name) + "'");
    Result<ProgramInputs> bound =
        ProgramInputs::bind(engine_, *program, ranks_.rank());
    if (!bound.ok())
      return bound.status();
    inputs.emplace(std::move(*bound));
    return Status();
  };
  Status status;
  if (options_.steps > 0)
    status = bindTo("train", train_);
  if (status.ok() && description.syncEvery > 1) {
    sync_ = findProgram(description, "sync");
    if (!sync_)
      status = Status::error("the executable has no program 'sync', which "
                             "averages the states of its ranks");
  }
  if (train_ && train_->scalesGradients()) {
    if (!progress_.lossScale)
      progress_.lossScale = {options_.lossScale.initial};
    else if (options_.restartsLossScale)
      progress_.lossScale->restart(options_.lossScale.initial);
  }
  if (status.ok() && files_.valData)
    status = bindTo("evaluate", evaluate_);
  return status;
}

RunFacts TrainingRun::facts() const {
  RunFacts facts;
  facts.totalSteps = options_.steps;
  if (files_.data)
    facts.epoch = double(progress_.sequence) /
                  double(std::max<int64_t>(
                      files_.data->sequencesPerEpoch(
                          engine_.description().model.sequenceLength),
                      1));
  return facts;
}

/// Suggests options that may prevent divergence: a lower rate, and warmup and
/// clipping if they are off.
std::string TrainingRun::advice() const {
  std::string text = "lower --lr";
  if (options_.schedule.warmupSteps == 0)
    text += ", or add --warmup-steps";
  if (!engine_.description().build.clip)
    text += ", or compile it with --clip=on";
  else if (options_.gradClip == 0)
    text += ", or set --grad-clip";
  return text;
}

/// Returns the error of a run that has diverged. `reason` is a sentence.
Status TrainingRun::diverged(const std::string &reason) const {
  std::string saved = savedStep_ ? "; the last checkpoint is that of step " +
                                       std::to_string(*savedStep_)
                                 : "; no checkpoint was written";
  return Status(ExitCode::Diverged,
                reason + ": training has diverged" + saved + "; " + advice());
}

Status TrainingRun::checkFinite(const StepRecord &record) const {
  if (record.skipped)
    return Status();
  const char *what = !std::isfinite(record.loss) ? "loss"
                     : record.gradNorm && !std::isfinite(*record.gradNorm)
                         ? "norm of the gradients"
                         : nullptr;
  if (!what)
    return Status();
  return diverged("the " + std::string(what) + " of step " +
                  std::to_string(record.step) + " is not finite");
}

/// Checks the number of consecutive skipped steps. If there are too many,
/// repeats the last step, which began with the progress `before`, to name the
/// first op whose result is not finite.
Status TrainingRun::checkSkips(const StepRecord &record,
                               const Progress &before) {
  if (!record.skipped ||
      progress_.lossScale->skippedInARow < options_.lossScale.skips)
    return Status();
  Progress after = progress_;
  NonFiniteFinder finder;
  moveTo(before);
  Result<StepRecord> repeated = computeStep([&](size_t program) {
    return engine_.runObserved(program, std::ref(finder));
  });
  moveTo(after);
  if (!repeated.ok())
    warn("cannot find the first result that is not finite: " +
         repeated.status().message());
  std::string where;
  if (!finder.name().empty())
    where = ", where the first result that is not finite is that of " +
            inQuotes(finder.name());
  return diverged(
      std::string(std::isfinite(record.loss) ? "" : "the loss and ") +
      "the gradients of the last " +
      std::to_string(after.lossScale->skippedInARow) +
      " steps are not finite, up to step " + std::to_string(record.step) +
      " with the loss scale " +
      std::to_string(static_cast<int64_t>(*record.lossScale)) + where);
}

Status TrainingRun::runTraced() {
  std::vector<TraceEvent> events;
  Status status = engine_.runTraced(train_->program(), events);
  if (!status.ok())
    return status;
  std::string title = engine_.description().model.name + " step " +
                      std::to_string(progress_.step + 1);
  if (ranks_.size() > 1)
    title = "rank " + std::to_string(ranks_.rank()) + ", " + title;
  Result<std::vector<std::string>> traces =
      ranks_.collect("trace", traceOfRank(title, ranks_.rank(), events));
  if (!traces.ok())
    return traces.status();
  if (!ranks_.isFirst())
    return Status();
  Status written = writeFile(options_.trace, traceFile(*traces));
  if (!written.ok())
    missing("--trace", written);
  return Status();
}

void TrainingRun::missing(const char *flag, const Status &status) {
  warn(std::string(flag) + ": " + status.message() + "; the run continues");
  if (diagnostics_.ok())
    diagnostics_ =
        Status(status.code(), "the run is complete except for " +
                                  std::string(flag) + ": " + status.message());
}

/// Returns the error of a run that a signal has stopped.
Status TrainingRun::stopped() const {
  return Status(
      ExitCode::Stopped,
      "stopped by a signal after step " + std::to_string(progress_.step) +
          (savedStep_ == progress_.step
               ? "; continue with --resume=" + options_.save
               : "; nothing was saved, because --save was not given"));
}

/// Writes this rank's part of the next batch to the inputs of the training
/// program. Returns the number of targets of the whole batch.
Result<int64_t> TrainingRun::beginStep() {
  if (World *world = ranks_.world())
    world->setStep(progress_.step + 1);
  int64_t firstRow = ranks_.dataIndex() * train_->batch();
  Result<int64_t> own = train_->writeBatch(
      sourceOf(*files_.data, files_.inputs), progress_.sequence + firstRow,
      train_->batch(), progress_.seed, progress_.step, firstRow);
  Ballot mine;
  mine.stop = stopRequested();
  if (own.ok())
    mine.targets = *own;
  Result<Ballot> all = ranks_.vote("the start", own.status(), mine);
  if (!all.ok())
    return all.status();
  stops_ = all->stop;
  if (stops_)
    return stopped();
  bool isLocal = engine_.description().syncEvery > 1;
  train_->writeLossScale(isLocal ? mine.targets : all->targets);
  return all->targets;
}

Result<StepRecord>
TrainingRun::computeStep(const std::function<Status(size_t program)> &compute) {
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  StepRecord record;
  record.step = progress_.step + 1;
  record.rate = schedule_.rate(progress_.step);
  Result<int64_t> targets = beginStep();
  if (!targets.ok())
    return targets.status();
  if (*targets == 0 && !hasWarnedOfTargets_) {
    hasWarnedOfTargets_ = true;
    warn("step " + std::to_string(record.step) +
         " has no targets, because the loss mask excludes all of them: its "
         "loss and its gradients are 0");
  }
  bool scales = train_->scalesGradients();
  if (scales)
    record.lossScale = progress_.lossScale->scale;
  train_->writeUpdate(record.rate, progress_.appliedUpdates() + 1,
                      options_.gradClip, record.lossScale.value_or(1));
  Status status = compute(train_->program());
  if (!status.ok())
    return ranks_.abort(status);
  record.loss = train_->loss();
  if (train_->hasGradNorm())
    record.gradNorm = train_->gradNorm();
  if (scales) {
    record.skipped = !std::isfinite(*record.gradNorm);
    progress_.lossScale->advance(!record.skipped, options_.lossScale);
    record.skippedSteps = progress_.lossScale->skipped;
  }
  if (std::optional<CopyCounts> copies = engine_.copies(train_->program()))
    record.copyWaitMilliseconds = copies->waitSeconds * 1e3;
  if (std::optional<SumCounts> sums = engine_.sums(train_->program()))
    if (sums->waitSeconds)
      record.sumWaitMilliseconds = *sums->waitSeconds * 1e3;
  double seconds = std::chrono::duration<double>(Clock::now() - start).count();
  record.milliseconds = seconds * 1e3;
  record.tokensPerSecond = double(*targets) / seconds;
  progress_.step += 1;
  progress_.sequence += train_->batch() * ranks_.dataSize();
  progress_.tokens += *targets;
  areStatesLocal_ = engine_.description().syncEvery > 1;
  return record;
}

/// Averages the states of the data-parallel ranks, if the ranks have taken
/// steps since the last average.
Status TrainingRun::averageStates() {
  if (!areStatesLocal_)
    return Status();
  using Clock = std::chrono::steady_clock;
  Clock::time_point start = Clock::now();
  if (Status status = engine_.run(*sync_); !status.ok())
    return ranks_.abort(status);
  areStatesLocal_ = false;
  records_.average(
      progress_.step,
      std::chrono::duration<double, std::milli>(Clock::now() - start).count());
  return Status();
}

Status TrainingRun::trainStep() {
  bool first = progress_.step == firstStep_;
  bool traced = !options_.trace.empty() && progress_.step + 1 == options_.steps;
  Progress before = progress_;
  Result<StepRecord> record = computeStep([&](size_t program) {
    return traced ? runTraced() : engine_.run(program);
  });
  if (!record.ok())
    return record.status();
  if (!options_.dumpGradients.empty() && ranks_.isFirst() && first)
    if (Status status = dumpGradients(record->lossScale.value_or(1));
        !status.ok())
      missing("--dump-gradients", status);
  records_.step(*record);
  Status status = checkFinite(*record);
  if (status.ok())
    status = checkSkips(*record, before);
  if (status.ok() && progress_.step % engine_.description().syncEvery == 0)
    status = averageStates();
  return status;
}

/// Divides elements of `type` by `scale`. Returns the quotients as f32.
static std::vector<float> unscaled(ElementType type, const char *data,
                                   int64_t count, double scale) {
  std::vector<float> values(static_cast<size_t>(count));
  convertElements(type, data, ElementType::F32, values.data(), count);
  for (float &value : values)
    value = float(value / scale);
  return values;
}

/// Writes the gradients of the last step, divided by `scale`. If the scale is
/// not 1, the quotients are written as f32, because they may underflow in the
/// type of the gradients.
Status TrainingRun::dumpGradients(double scale) {
  const Description &description = engine_.description();
  const ProgramInfo &info = description.programs[train_->program()];
  std::vector<TensorDeclaration> tensors;
  std::vector<size_t> outputs;
  for (size_t i = 0; i < info.outputs.size(); ++i) {
    const ValueInfo &output = info.outputs[i];
    if (!isGradient(output))
      continue;
    std::string name = output.name.substr(gradientPrefix.size());
    for (const StateInfo &state : description.states) {
      if (state.name == name) {
        name = state.sourceName;
        break;
      }
    }
    tensors.push_back(
        {name, scale == 1 ? output.type : ElementType::F32, output.shape});
    outputs.push_back(i);
  }
  Result<SafeTensorsWriter> writer =
      SafeTensorsWriter::create(options_.dumpGradients, std::move(tensors));
  if (!writer.ok())
    return writer.status();
  for (size_t i : outputs) {
    const ValueInfo &output = info.outputs[i];
    Status status =
        engine_.readGradient(train_->program(), i, [&](const char *data) {
          if (scale == 1)
            return writer->write(data, uint64_t(output.bytes()));
          std::vector<float> values =
              unscaled(output.type, data, output.elements(), scale);
          return writer->write(reinterpret_cast<const char *>(values.data()),
                               uint64_t(values.size() * sizeof(float)));
        });
    if (!status.ok())
      return status;
  }
  return writer->finish();
}

Status TrainingRun::validate() {
  if (!files_.valData || validatedStep_ == progress_.step)
    return Status();
  int64_t sequences = files_.valData->sequencesPerEpoch(evaluate_->length());
  if (options_.valBatches > 0)
    // If valBatches * batch overflows, it exceeds `sequences`, so `sequences`
    // is the minimum of the two.
    sequences = std::min(
        sequences, checkedMul<int64_t>(options_.valBatches,
                                       engine_.description().globalBatch())
                       .value_or(sequences));
  // The program computes the loss of one batch. Each rank evaluates its part of
  // each global batch, and the ranks add their losses. If the program
  // communicates, the ranks agree before each run that all of them run it.
  bool isCommon =
      ranks_.size() > 1 &&
      engine_.description().programs[evaluate_->program()].communicates;
  int64_t batch = evaluate_->batch(), firstRow = ranks_.dataIndex() * batch;
  double sum = 0;
  int64_t targets = 0;
  Status outcome;
  for (int64_t first = 0; first < sequences && outcome.ok();
       first += batch * ranks_.dataSize()) {
    if (!isCommon && stopRequested())
      break;
    int64_t rows = std::clamp<int64_t>(sequences - first - firstRow, 0, batch);
    Result<int64_t> counted = evaluate_->writeBatch(
        sourceOf(*files_.valData, files_.valInputs), first + firstRow, rows,
        progress_.seed, progress_.step);
    outcome = counted.status();
    if (isCommon) {
      Result<Ballot> all =
          ranks_.vote("the validation", outcome, {stopRequested()});
      if (!all.ok())
        return all.status();
      if (all->stop)
        break;
    }
    if (outcome.ok())
      outcome = engine_.run(evaluate_->program());
    if (!outcome.ok() && isCommon)
      return ranks_.abort(outcome);
    if (!outcome.ok())
      break;
    sum += evaluate_->loss() * double(*counted);
    targets += *counted;
  }
  Result<Ballot> all =
      ranks_.vote("the validation", outcome, {stopRequested(), targets, sum});
  if (!all.ok())
    return all.status();
  // After a stop, do not report the mean over part of the data, because it
  // could be mistaken for the validation loss.
  stops_ = all->stop;
  if (stops_)
    return Status();
  double loss = all->loss / double(std::max<int64_t>(all->targets, 1));
  records_.evaluation(progress_.step, loss, all->targets);
  validatedStep_ = progress_.step;
  if (!std::isfinite(loss))
    return Status(ExitCode::Diverged, "the validation loss after step " +
                                          std::to_string(progress_.step) +
                                          " is not finite");
  return Status();
}

/// Returns an error if a state is not finite. The update of a step may overflow
/// even if the loss of the step is finite. Ranks other than the first one check
/// only their shards.
Status TrainingRun::checkStatesFinite() const {
  const std::vector<StateInfo> &states = engine_.description().states;
  for (size_t i = 0; i < states.size(); ++i) {
    const StateInfo &state = states[i];
    // A state that no program writes keeps its initial values, which may be
    // infinite, such as the -inf of an additive mask.
    if (!state.written || state.role == StateRole::Constant ||
        state.role == StateRole::Mirror || !state.isHere ||
        !(ranks_.isFirst() || state.isSharded()))
      continue;
    bool bad = false;
    Status status =
        engine_.accessState(i, HostAccess::Read, [&](const char *data) {
          bad = hasNonFinite(state.type, data, state.elements());
          return Status();
        });
    if (!status.ok())
      return status;
    if (bad)
      return Status(ExitCode::Diverged,
                    "after step " + std::to_string(progress_.step) + " state " +
                        inQuotes(state.name) +
                        " is not finite: training has diverged, and this step "
                        "is not saved; " +
                        advice());
  }
  return Status();
}

Status TrainingRun::compareStates() {
  if (ranks_.size() == 1)
    return Status();
  Status status;
  std::vector<RankFact> facts = {{"states", 0}};
  // Compare the shards of a state between ranks that have the same indexes on
  // the axes over which the state is divided, because these ranks have the same
  // shard.
  const Description &description = engine_.description();
  for (const StateInfo &state : description.states) {
    bool isCompared =
        state.parts(description.mesh) == description.ranks() ||
        std::any_of(facts.begin(), facts.end(), [&](const RankFact &fact) {
          return fact.axes == state.axes();
        });
    if (!isCompared)
      facts.push_back({"divided states", 0, state.axes()});
  }
  for (RankFact &fact : facts) {
    Result<uint64_t> hash = hashStates(engine_, fact.axes);
    if (hash.ok())
      fact.hash = *hash;
    else if (status.ok())
      status = hash.status();
  }
  status = ranks_.vote("the comparison", status).status();
  if (!status.ok())
    return status;
  status = ranks_.compare(facts);
  if (status.ok())
    return Status();
  if (progress_.step == firstStep_)
    return Status(ExitCode::Usage,
                  "before the first step, " + status.message() +
                      ": the files that --init, --base, --adapter or --resume "
                      "name must have the same contents on all machines");
  return Status(ExitCode::Diverged,
                "after step " + std::to_string(progress_.step) + ", " +
                    status.message() +
                    ": the checkpoint is not saved; test the memory and the "
                    "processor of the machine of this rank");
}

Status TrainingRun::writeCheckpoint(WholeStates &states) {
  std::vector<std::string> notes;
  Status status = saveCheckpoint(*files_.save, states, progress_, record_,
                                 facts(), files_.base, options_.keep, notes);
  for (const std::string &note : notes)
    warn(note);
  return status;
}

/// Saves a checkpoint. The first rank writes it; the others send their shards,
/// and wait for the outcome.
Status TrainingRun::save() {
  if (options_.save.empty() || savedStep_ == progress_.step)
    return Status();
  if (Status status = compareStates(); !status.ok())
    return status;
  WholeStates states(engine_, ranks_, "the checkpoint");
  Status status = checkStatesFinite();
  if (status.ok())
    status =
        ranks_.isFirst() ? writeCheckpoint(states) : sendCheckpoint(states);
  status = states.finish(status);
  if (!status.ok())
    return status;
  savedStep_ = progress_.step;
  records_.say("saved " + options_.save + "/checkpoint-" +
               std::to_string(progress_.step));
  return Status();
}

Status TrainingRun::run() {
  while (progress_.step < options_.steps && !stops_) {
    Status status = trainStep();
    if (status.code() == ExitCode::Stopped)
      break;
    if (!status.ok())
      return status;
    bool last = progress_.step == options_.steps;
    if (options_.valEvery > 0 && progress_.step % options_.valEvery == 0) {
      status = validate();
      if (!status.ok())
        return status;
    }
    if (options_.saveEvery > 0 && progress_.step % options_.saveEvery == 0 &&
        !last) {
      status = save();
      if (status.code() == ExitCode::Diverged)
        return status;
      // A failed save does not end training: older checkpoints are intact.
      if (!status.ok())
        warn("checkpoint of step " + std::to_string(progress_.step) +
             " was not saved: " + status.message());
    }
  }
  if (!stops_) {
    Result<Ballot> all = ranks_.vote("the end", Status(), {stopRequested()});
    if (!all.ok())
      return all.status();
    stops_ = all->stop;
  }
  // If the run is stopped before its first step, return without saving a
  // checkpoint: no state has changed.
  if (stops_ && progress_.step == firstStep_)
    return Status(ExitCode::Stopped,
                  "stopped by a signal; there was nothing to save");
  Status status = averageStates();
  if (status.ok() && !stops_)
    status = validate();
  if (status.ok())
    status = save();
  return status.ok() && stops_ ? stopped() : status;
}

} // namespace kiln::runtime
