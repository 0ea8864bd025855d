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

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Files/CheckpointDir.h"
#include "kiln/Runtime/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln {

/// Where training stands, apart from the states. Dropout and data order are
/// functions of it: there is no generator to save.
struct Progress {
  int64_t step = 0;     ///< Updates done.
  int64_t sequence = 0; ///< Index of the next sequence in the data.
  int64_t tokens = 0;   ///< Targets seen.
  uint64_t seed = 0;
  std::optional<uint64_t> shuffle;
};

/// What is only written down for readers.
struct RunFacts {
  int64_t totalSteps = 0;
  double epoch = 0;
};

/// Bytes that a checkpoint will take, about.
Result<uint64_t> checkpointBytes(const Description &description);

Status saveCheckpoint(CheckpointDir &directory, Engine &engine,
                      const Progress &progress, const RunFacts &facts,
                      int64_t keep, std::vector<std::string> &notes);

/// Finds the checkpoint and reads where it stands, but no states.
Result<FoundCheckpoint> openCheckpoint(const std::string &path,
                                       const Engine &engine, Progress &progress,
                                       std::vector<std::string> &notes);

/// Reads all states that a checkpoint holds.
Status loadCheckpoint(const FoundCheckpoint &checkpoint, Engine &engine,
                      std::vector<std::string> &notes);

} // namespace kiln

#endif // KILN_LIB_RUNTIME_TRAINING_CHECKPOINT_H
