//===- CheckpointFormat.h - On-disk format of checkpoints -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The file names and the manifest text of checkpoints. This header is internal
// to the library.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_FILES_CHECKPOINTFORMAT_H
#define KILN_LIB_RUNTIME_FILES_CHECKPOINTFORMAT_H

#include "kiln/Runtime/Files/CheckpointDir.h"
#include <optional>

namespace kiln::runtime {

inline constexpr const char *kManifestName = "kiln_manifest.json";
inline constexpr const char *kStagingPrefix = ".tmp-checkpoint-";
inline constexpr const char *kTrashPrefix = ".trash-checkpoint-";
/// The prefix of the name of an old checkpoint while a new checkpoint of the
/// same step replaces it. It is used only if the system cannot exchange two
/// directories atomically.
inline constexpr const char *kReplacedPrefix = ".replaced-checkpoint-";

std::string checkpointName(int64_t step);
/// Returns the step of a name "checkpoint-<step>", or nothing for other names.
std::optional<int64_t> parseCheckpointName(std::string_view name);

/// Returns the text of the manifest. Its last member is a hash of all text
/// before that member.
std::string manifestText(const CheckpointManifest &manifest);

/// Reads the manifest of the checkpoint at `path`. Fails if the directory name
/// contains a step that differs from the step in the manifest.
Result<CheckpointManifest> readManifest(const std::string &path);

struct ListedCheckpoint {
  std::string path;
  int64_t step;
  Result<CheckpointManifest> manifest;
};

/// Returns all directories in `path` that are named checkpoint-<step>.
/// Directories without a valid manifest come first. The others follow, oldest
/// first.
Result<std::vector<ListedCheckpoint>> listCheckpoints(const std::string &path);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_FILES_CHECKPOINTFORMAT_H
