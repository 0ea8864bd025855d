//===- Checkpoint.h - Contents of checkpoints -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A checkpoint contains these files:
//
//  * model.safetensors, with the tensor names of the source model. A model with
//    adapters instead has adapter_config.json and adapter_model.safetensors, in
//    the format of PEFT.
//  * The config and tokenizer files of the model, except config.json and
//    generation_config.json for a model with adapters.
//  * optimizer.safetensors, with tensors such as <parameter>.exp_avg.
//  * trainer_state.json, for tools that read Hugging Face checkpoints.
//  * A manifest with the training progress.
//
// None of these files depends on the plan. Therefore an executable with another
// plan for the same model can resume from the checkpoint.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_CHECKPOINT_H
#define KILN_LIB_RUNTIME_TRAINING_CHECKPOINT_H

#include "Adapter.h"
#include "Trajectory.h"
#include "WholeStates.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime {

/// Upper bound on the numbers of steps, sequences and tokens in a manifest.
/// Arithmetic on numbers up to this bound cannot overflow.
inline constexpr int64_t mostCount = int64_t(1) << 53;

/// The training progress without the states. Dropout and the data order are
/// computed from the progress alone. Therefore a checkpoint contains no state
/// of a random generator.
struct Progress {
  int64_t step = 0; ///< Number of completed updates.
  /// Index of the next sequence that the run reads from the data.
  int64_t sequence = 0;
  /// Number of targets that the completed updates have processed.
  int64_t tokens = 0;
  uint64_t seed = 0;
  std::optional<uint64_t> shuffle;
  /// Number of updates that had been completed when the optimizer states were
  /// last initialised. Nonzero only after a resume that reset the optimizer
  /// states. Bias correction counts only later updates.
  int64_t optimizerStart = 0;
  /// The scale of gradients; nullopt if the run does not scale gradients.
  std::optional<LossScale> lossScale;

  /// Returns the number of updates that have changed the optimizer states since
  /// they were initialised.
  int64_t appliedUpdates() const {
    return step - optimizerStart - (lossScale ? lossScale->skipped : 0);
  }
  /// Accounts for a reset of the optimizer states.
  void resetOptimizer() {
    optimizerStart = step;
    if (lossScale)
      lossScale->skipped = 0;
  }
};

/// The part of the manifest of a checkpoint that records the Trajectory of the
/// run, the properties that determine its losses.
struct TrajectoryRecord {
  /// False for a checkpoint of an earlier format, which contains no record.
  bool isKnown = true;
  /// The trajectory of the run. If `isKnown` is true and this is nullopt, the
  /// checkpoint belongs to a run that has not trained yet.
  std::optional<Trajectory> trajectory;
};

/// Properties of a run that are saved only for users and other tools. They are
/// ignored when a run resumes.
struct RunFacts {
  int64_t totalSteps = 0;
  double epoch = 0;
};

/// An opened checkpoint: its progress and the properties of its run.
struct ResumePoint {
  FoundCheckpoint found;
  Progress progress;
  TrajectoryRecord record;
  /// The name of the optimizer. Checkpoints of earlier formats contain this
  /// name too, although they have no trajectory record.
  std::string optimizerName;
  /// The weights of the base model, if this executable trains adapters.
  std::optional<BaseReference> base;
  /// True if this executable can use the checkpoint's optimizer states.
  bool loadsStates = false;
};

/// Returns the approximate size of a checkpoint in bytes.
Result<uint64_t> checkpointBytes(const Description &description);

/// Saves a checkpoint. `base` is used only for a model with adapters. Only the
/// first rank calls this function; the other ranks call sendCheckpoint(). Then
/// all ranks call states.finish().
Status saveCheckpoint(CheckpointDir &directory, WholeStates &states,
                      const Progress &progress, const TrajectoryRecord &record,
                      const RunFacts &facts, const BaseReference &base,
                      int64_t keep, std::vector<std::string> &notes);

/// Sends the shards of this rank for the checkpoint that the first rank saves.
Status sendCheckpoint(WholeStates &states);

/// Reads the progress from the manifest. Returns nullopt if the progress is
/// missing or invalid. Fuzzers call this function; it accesses only its
/// argument.
std::optional<Progress> readProgress(const CheckpointManifest &manifest);

/// Finds and opens the checkpoint, and reads its progress and the recorded
/// properties of its run, but no states.
Result<ResumePoint> openCheckpoint(const std::string &path,
                                   const Engine &engine,
                                   std::vector<std::string> &notes);

/// Reads the weights or the adapters. If point.loadsStates, also reads the
/// optimizer states; otherwise they keep their initial values. `rank` is the
/// number of this rank, whose shards are read.
Status loadCheckpoint(const ResumePoint &point, Engine &engine, int rank,
                      std::vector<std::string> &notes);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_CHECKPOINT_H
