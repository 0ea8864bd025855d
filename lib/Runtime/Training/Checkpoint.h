//===- Checkpoint.h - What a checkpoint holds -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// model.safetensors under the source model's own names, its config and
// tokenizer files, optimizer.safetensors (<parameter>.exp_avg, ...), and in the
// manifest where training stood. Nothing depends on how the executable was
// planned, so that another one of the same model can go on.
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

/// No step, sequence or number of tokens of a manifest is larger, so that
/// arithmetic with them cannot overflow.
inline constexpr int64_t mostCount = int64_t(1) << 53;

/// Where training stands, apart from the states. Dropout and data order are
/// functions of it: there is no generator to save.
struct Progress {
  int64_t step = 0;     ///< Updates done.
  int64_t sequence = 0; ///< Index of the next sequence in the data.
  int64_t tokens = 0;   ///< Targets seen.
  uint64_t seed = 0;
  std::optional<uint64_t> shuffle;
  /// Updates that were done before the states of the optimizer started; not 0
  /// after a resume that changed the optimizer. Bias corrections count from it.
  int64_t optimizerStart = 0;
};

/// The trajectory as the manifest has it.
struct TrajectoryRecord {
  /// False: a checkpoint of an earlier format, which does not tell.
  bool isKnown = true;
  /// Empty, if known: nothing has been trained yet.
  std::optional<Trajectory> trajectory;
};

/// What is only written down for readers.
struct RunFacts {
  int64_t totalSteps = 0;
  double epoch = 0;
};

/// A checkpoint that was found: where training stood, and how it got there.
struct ResumePoint {
  FoundCheckpoint found;
  Progress progress;
  TrajectoryRecord record;
  /// The optimizer's name, which earlier formats have, too.
  std::string optimizerName;
  /// True if the states of the optimizer mean the same to this executable.
  bool loadsStates = false;
};

/// Bytes that a checkpoint will take, about.
Result<uint64_t> checkpointBytes(const Description &description);

Status saveCheckpoint(CheckpointDir &directory, Engine &engine,
                      const Progress &progress, const TrajectoryRecord &record,
                      const RunFacts &facts, int64_t keep,
                      std::vector<std::string> &notes);

/// Reads where training stood; empty if the manifest does not say so properly.
/// Entry for fuzzers: touches nothing but its input.
std::optional<Progress> readProgress(const CheckpointManifest &manifest);

/// Finds the checkpoint and reads where it stands, but no states.
Result<ResumePoint> openCheckpoint(const std::string &path,
                                   const Engine &engine,
                                   std::vector<std::string> &notes);

/// Reads the weights and, if point.loadsStates, the states of the optimizer;
/// otherwise these keep their initial values.
Status loadCheckpoint(const ResumePoint &point, Engine &engine,
                      std::vector<std::string> &notes);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_CHECKPOINT_H
