//===- CheckpointFind.cpp - Search for a valid checkpoint -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A checkpoint is valid if its manifest is intact and every file has the size
// and the hash that the manifest lists.
//
// A run that saves checkpoints to the same directory may remove or replace
// checkpoints during the search. An open file stays readable after its removal.
// Therefore all files of a checkpoint are opened before any of them is hashed.
// If a checkpoint is removed or replaced before all its files are open, a newer
// checkpoint exists, and the search starts again.
//
//===----------------------------------------------------------------------===//

#include "CheckpointFormat.h"
#include "kiln/Support/Hash.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Posix.h"
#include "kiln/Support/Process.h"
#include <algorithm>
#include <sys/stat.h>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

/// Maximum number of searches. A search is repeated if a checkpoint changed
/// during the search.
static constexpr int kSearches = 20;

static Status verifyFile(const InputFile &file, const CheckpointFile &expected,
                         VerifyLevel level) {
  if (file.size() != expected.bytes)
    return Status::badInput("'" + file.path() + "' has " +
                            std::to_string(file.size()) +
                            " bytes, but its size in the manifest is " +
                            std::to_string(expected.bytes));
  if (level == VerifyLevel::Sizes)
    return Status();
  StreamHash hash;
  std::vector<char> buffer(std::min<uint64_t>(expected.bytes, 1 << 20));
  for (uint64_t position = 0; position < expected.bytes;) {
    if (Status status = checkStop(); !status.ok())
      return status;
    uint64_t count =
        std::min<uint64_t>(buffer.size(), expected.bytes - position);
    if (Status status = file.read(position, buffer.data(), count); !status.ok())
      return status;
    hash.update(buffer.data(), count);
    position += count;
  }
  if (hash.hex() != expected.hash)
    return Status::badInput("'" + file.path() +
                            "' is damaged: its content does not match the "
                            "hash in the manifest");
  return Status();
}

/// Opens all files of a checkpoint and then verifies them.
static Result<FoundCheckpoint> openFiles(const std::string &path,
                                         CheckpointManifest manifest,
                                         VerifyLevel level) {
  FoundCheckpoint found{path, std::move(manifest), {}, {}};
  for (const CheckpointFile &expected : found.manifest.files) {
    Result<InputFile> file = InputFile::openSibling(path, expected.name);
    if (!file.ok())
      return file.status();
    found.files.emplace(expected.name, std::move(*file));
  }
  for (const CheckpointFile &expected : found.manifest.files)
    if (Status status =
            verifyFile(found.files.at(expected.name), expected, level);
        !status.ok())
      return status;
  return found;
}

/// Returns true if the checkpoint at `path` has been removed, or if it now has
/// a valid manifest other than `manifest`.
static bool hasChanged(const std::string &path,
                       const Result<CheckpointManifest> &manifest) {
  struct stat info;
  if (::stat(path.c_str(), &info) != 0)
    return true;
  Result<CheckpointManifest> now = readManifest(path);
  return now.ok() && !(manifest.ok() && manifest->sequence == now->sequence);
}

/// Searches `path` once. Sets `stale` to true if a checkpoint may have changed
/// during the search. In that case, returns early unless `isLast` is true.
static Result<FoundCheckpoint>
search(const std::string &path, VerifyLevel level, bool isLast, bool &stale) {
  struct stat info;
  bool isOne = ::stat((path + "/" + kManifestName).c_str(), &info) == 0 ||
               parseCheckpointName(baseName(path));
  if (isOne) {
    Result<CheckpointManifest> manifest = readManifest(path);
    if (!manifest.ok()) {
      stale = hasChanged(path, manifest);
      return manifest.status();
    }
    Result<FoundCheckpoint> found = openFiles(path, *manifest, level);
    stale = !found.ok() && hasChanged(path, manifest);
    return found;
  }

  Result<std::vector<ListedCheckpoint>> list = listCheckpoints(path);
  if (!list.ok())
    return list.status();
  if (list->empty()) {
    // If another process replaces the only checkpoint during the listing, the
    // list may contain neither the old nor the new one.
    stale = true;
    return Status::badInput("'" + path +
                            "' holds no checkpoint, expected a subdirectory "
                            "named checkpoint-<step>");
  }
  std::vector<std::string> notes;
  auto passOver = [&](const ListedCheckpoint &entry, const Status &status) {
    notes.push_back("skipping '" + entry.path + "': " + status.message());
    stale = stale || hasChanged(entry.path, entry.manifest);
  };
  // Add a note for every checkpoint without a valid manifest, because such a
  // checkpoint may be newer than the one that is found.
  for (const ListedCheckpoint &entry : *list)
    if (!entry.manifest.ok())
      passOver(entry, entry.manifest.status());
  for (auto entry = list->rbegin(); entry != list->rend(); ++entry) {
    if (stale && !isLast)
      break;
    if (!entry->manifest.ok())
      continue;
    Result<FoundCheckpoint> found =
        openFiles(entry->path, *entry->manifest, level);
    if (found.ok()) {
      found->notes = std::move(notes);
      return found;
    }
    passOver(*entry, found.status());
  }
  return Status::badInput(
      "'" + path + "' holds no valid checkpoint" +
      (notes.empty() ? std::string() : ": " + notes.back()));
}

Result<FoundCheckpoint> kiln::runtime::findCheckpoint(const std::string &path,
                                                      VerifyLevel level) {
  for (int searches = 1;; ++searches) {
    bool stale = false;
    bool isLast = searches == kSearches;
    Result<FoundCheckpoint> found = search(path, level, isLast, stale);
    if (!stale || isLast)
      return found;
  }
}

Result<InputFile> FoundCheckpoint::open(const std::string &name) const {
  auto file = files.find(name);
  if (file == files.end())
    return Status::badInput("checkpoint '" + path + "' holds no file " +
                            inQuotes(name));
  return file->second.duplicate();
}

Result<ModelWeights> kiln::runtime::openWeights(const std::string &path) {
  Result<ModelWeights> weights = ModelWeights::open(path);
  if (weights.ok() || holdsWeights(path))
    return weights;
  Result<std::vector<ListedCheckpoint>> list = listCheckpoints(path);
  if (!list.ok() || list->empty() || !list->back().manifest.ok())
    return weights;
  return Status::badInput(
      "'" + path +
      "' is a directory of checkpoints, expected a single checkpoint: choose "
      "'" +
      list->back().path +
      "', which is the newest, or another checkpoint in the directory");
}
