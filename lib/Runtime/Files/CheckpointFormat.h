//===- CheckpointFormat.h - How checkpoints lie on disk ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Internal to the files library: names, and the manifest as text.
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

std::string checkpointName(int64_t step);
/// The step in "checkpoint-<step>".
std::optional<int64_t> parseCheckpointName(std::string_view name);

/// The manifest's text; its last member is the hash of all text before it.
std::string manifestText(const CheckpointManifest &manifest);

/// Reads the manifest of the checkpoint at `path`, whose step must be that in
/// its name, if the name has one.
Result<CheckpointManifest> readManifest(const std::string &path);

struct ListedCheckpoint {
  std::string path;
  int64_t step;
  Result<CheckpointManifest> manifest;
};

/// All checkpoint-<step> directories in `path`, whether valid or not; oldest
/// first, those without a valid manifest before all others.
Result<std::vector<ListedCheckpoint>> listCheckpoints(const std::string &path);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_FILES_CHECKPOINTFORMAT_H
