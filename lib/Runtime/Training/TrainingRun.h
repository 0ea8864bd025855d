//===- TrainingRun.h - Steps, validation and checkpoints --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Drives one training run on a started engine: the progress of the run and the
// loop that advances it. Between steps, the states always correspond to
// `progress`, so a checkpoint is consistent.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_TRAININGRUN_H
#define KILN_LIB_RUNTIME_TRAINING_TRAININGRUN_H

#include "Checkpoint.h"
#include "ProgramInputs.h"
#include "Ranks.h"
#include "Records.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Runtime/Files/TokenFile.h"
#include "kiln/Runtime/Training/Options.h"

#include <functional>
#include <optional>

namespace kiln::runtime {

/// Files and checkpoint directory of a run, opened before the run starts. A
/// member is nullopt if the options do not name the file or directory.
struct RunFiles {
  std::optional<TokenFile> data;
  std::optional<TokenFile> valData;
  /// Tensors of the inputs that the model declares.
  std::optional<InputTensors> inputs;
  std::optional<InputTensors> valInputs;
  std::optional<CheckpointDir> save;
  /// The base model of the adapters that the run trains.
  BaseReference base;
};

class TrainingRun {
public:
  /// All references must outlive the run. `progress` is the starting point of
  /// the run, and the checkpoints of the run contain `record`.
  TrainingRun(Engine &engine, const Options &options, RunFiles &files,
              Records &records, const TrajectoryRecord &record,
              const Progress &progress, Ranks &ranks);

  /// Finds the programs that the options require, and the memory of their
  /// inputs and outputs.
  Status bind();

  /// Trains until `options.steps` steps are done. Validates and saves
  /// checkpoints as often as the options request. Fails with ExitCode::Stopped
  /// after a signal and with ExitCode::Diverged if a loss or gradient norm is
  /// not finite.
  Status run();

  /// Returns an error if the trace or the gradients could not be written. The
  /// run continues after such an error.
  const Status &diagnostics() const { return diagnostics_; }

  const Progress &progress() const { return progress_; }

  /// Computes one update: writes the inputs of the next step, calls `compute`
  /// with the training program, and advances `progress`. Returns the record of
  /// the step, whether or not its loss is finite. If a stop was requested on
  /// any rank, fails with ExitCode::Stopped before `compute`.
  Result<StepRecord>
  computeStep(const std::function<Status(size_t program)> &compute);

  /// Fails unless all ranks have the same values in all states that are not
  /// sharded, and all ranks that store the same shard of a state have the same
  /// values in this shard.
  Status compareStates();

  /// Sets the progress from which the next step continues. The caller must
  /// restore the states that correspond to `progress`.
  void moveTo(const Progress &progress) { progress_ = progress; }

  /// Fails if the loss or the gradient norm of a step is infinite or NaN. Never
  /// fails for a skipped step.
  Status checkFinite(const StepRecord &record) const;

private:
  Status trainStep();
  Status averageStates();
  Status diverged(const std::string &reason) const;
  Status checkSkips(const StepRecord &record, const Progress &before);
  Status validate();
  Result<int64_t> beginStep();
  Status save();
  Status writeCheckpoint(WholeStates &states);
  Status stopped() const;
  Status checkStatesFinite() const;
  Status dumpGradients(double scale);
  Status runTraced();
  /// Records that the output file of `flag` could not be written.
  void missing(const char *flag, const Status &status);
  std::string advice() const;
  RunFacts facts() const;

  Engine &engine_;
  const Options &options_;
  RunFiles &files_;
  Records &records_;
  const TrajectoryRecord &record_;
  Progress progress_;
  Schedule schedule_;
  std::optional<ProgramInputs> train_;
  std::optional<ProgramInputs> evaluate_;
  std::optional<size_t> sync_; ///< The program that averages states.
  Ranks &ranks_;
  int64_t firstStep_;
  /// True if the ranks have agreed to stop.
  bool stops_ = false;
  Status diagnostics_;
  std::optional<int64_t> savedStep_;
  /// True if ranks have trained separately since their states were averaged.
  bool areStatesLocal_ = false;
  bool hasWarnedOfTargets_ = false; ///< Warned that a batch has no targets.
  std::optional<int64_t> validatedStep_;
};

/// Returns the index of the program with that name, or nullopt.
std::optional<size_t> findProgram(const Description &description,
                                  const std::string &name);

/// Returns a source that reads sequences from a token file.
SequenceSource sourceOf(TokenFile &file,
                        const std::optional<InputTensors> &inputs);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_TRAININGRUN_H
