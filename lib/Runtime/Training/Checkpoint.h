//===- Checkpoint.h - Contents of checkpoints -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A checkpoint contains model.safetensors with the tensor names of the source
// model, the model's config and tokenizer files, optimizer.safetensors
// (<parameter>.exp_avg, ...), and a manifest with the training progress. None
// of these files depends on the plan, so another executable of the same model
// can resume from it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_CHECKPOINT_H
#define KILN_LIB_RUNTIME_TRAINING_CHECKPOINT_H

#include "Trajectory.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime {

/// Upper bound of the steps, sequences and token counts of a manifest, so that
/// arithmetic on them cannot overflow.
inline constexpr int64_t mostCount = int64_t(1) << 53;

/// The training progress, excluding the states. Dropout and the data order are
/// functions of it, so no random generator state is saved.
struct Progress {
  int64_t step = 0;     ///< Number of completed updates.
  int64_t sequence = 0; ///< Index of the next sequence in the data.
  int64_t tokens = 0;   ///< Number of targets processed so far.
  uint64_t seed = 0;
  std::optional<uint64_t> shuffle;
  /// Number of updates before the optimizer states were initialised; nonzero
  /// after a resume that changed the optimizer. Bias correction counts only
  /// later updates.
  int64_t optimizerStart = 0;
};

/// The trajectory record of the manifest.
struct TrajectoryRecord {
  /// False for a checkpoint of an earlier format, which lacks the record.
  bool isKnown = true;
  /// If isKnown, nullopt means that nothing has been trained yet.
  std::optional<Trajectory> trajectory;
};

/// Properties of a run that are saved for users and other tools only. Resuming
/// ignores them.
struct RunFacts {
  int64_t totalSteps = 0;
  double epoch = 0;
};

/// An opened checkpoint: its progress and its trajectory.
struct ResumePoint {
  FoundCheckpoint found;
  Progress progress;
  TrajectoryRecord record;
  /// Name of the optimizer. Known even if the checkpoint has an earlier format,
  /// which lacks the trajectory record.
  std::string optimizerName;
  /// True if this executable can use the checkpoint's optimizer states.
  bool loadsStates = false;
};

/// Returns the approximate size of a checkpoint in bytes.
Result<uint64_t> checkpointBytes(const Description &description);

Status saveCheckpoint(CheckpointDir &directory, Engine &engine,
                      const Progress &progress, const TrajectoryRecord &record,
                      const RunFacts &facts, int64_t keep,
                      std::vector<std::string> &notes);

/// Reads the progress; returns nullopt if it is missing or invalid. Entry point
/// of fuzzers: accesses only its argument.
std::optional<Progress> readProgress(const CheckpointManifest &manifest);

/// Finds the checkpoint and reads its progress, but no states.
Result<ResumePoint> openCheckpoint(const std::string &path,
                                   const Engine &engine,
                                   std::vector<std::string> &notes);

/// Reads the weights and, if point.loadsStates, the optimizer states. If not
/// point.loadsStates, the optimizer states keep their initial values.
Status loadCheckpoint(const ResumePoint &point, Engine &engine,
                      std::vector<std::string> &notes);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_CHECKPOINT_H
