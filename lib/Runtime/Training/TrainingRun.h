//===- TrainingRun.h - Steps, validation and checkpoints --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One run over an engine that has been started: where training stands, and the
// loop that moves it on. The states belong to `progress` at every moment
// outside of a step, so that a checkpoint between two steps is always
// consistent.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_TRAININGRUN_H
#define KILN_LIB_RUNTIME_TRAINING_TRAININGRUN_H

#include "Checkpoint.h"
#include "ProgramInputs.h"
#include "Records.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Runtime/Files/TokenFile.h"
#include "kiln/Runtime/Training/Options.h"

#include <functional>
#include <optional>

namespace kiln::runtime {

/// Files and devices of a run, opened before it starts; empty: not wanted.
struct RunFiles {
  std::optional<TokenFile> data;
  std::optional<TokenFile> valData;
  /// The inputs that the model declares, for either.
  std::optional<InputTensors> inputs;
  std::optional<InputTensors> valInputs;
  std::optional<CheckpointDir> save;
};

class TrainingRun {
public:
  /// All references must outlive the run; `progress` is where it starts, and
  /// `record` what its checkpoints say of the trajectory.
  TrainingRun(Engine &engine, const Options &options, RunFiles &files,
              Records &records, const TrajectoryRecord &record,
              const Progress &progress);

  /// Finds the programs that the options need.
  Status bind();

  /// Trains up to options.steps, validates and saves as the options say. Ends
  /// with ExitCode::Stopped after a signal, ExitCode::Diverged when a loss or
  /// norm is not finite.
  Status run();

  /// Fails if the trace or the gradients could not be written, which keeps no
  /// run from its end.
  const Status &diagnostics() const { return diagnostics_; }

  const Progress &progress() const { return progress_; }

  /// One update: writes the inputs of the step that `progress` stands before,
  /// calls `compute` with the training program, and moves `progress` on. Says
  /// what came out, finite or not.
  Result<StepRecord>
  computeStep(const std::function<Status(size_t program)> &compute);

  /// Makes the next step that of `progress`; the states are the caller's.
  void moveTo(const Progress &progress) { progress_ = progress; }

  /// Fails when the loss or norm of a step is not finite.
  Status checkFinite(const StepRecord &record) const;

private:
  Status trainStep();
  Status validate();
  Status save();
  Status checkStatesFinite() const;
  Status dumpGradients();
  Status runTraced();
  /// Notes that `flag` has no file.
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
  int64_t firstStep_;
  Status diagnostics_;
  std::optional<int64_t> savedStep_;
  std::optional<int64_t> validatedStep_;
};

/// Index of the program of that name, if the executable has it.
std::optional<size_t> findProgram(const Description &description,
                                  const std::string &name);

/// Reads sequences from a token file.
SequenceSource sourceOf(TokenFile &file,
                        const std::optional<InputTensors> &inputs);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_TRAININGRUN_H
