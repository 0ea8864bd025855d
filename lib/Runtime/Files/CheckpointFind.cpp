//===- CheckpointFind.cpp - Finding a checkpoint to resume from -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A checkpoint counts only when its manifest is intact and every file has the
// size and the hash that the manifest gives.
//
//===----------------------------------------------------------------------===//

#include "CheckpointFormat.h"
#include "Hash.h"
#include "Posix.h"
#include "kiln/Runtime/Files/Messages.h"
#include "kiln/Runtime/Process.h"
#include <algorithm>
#include <sys/stat.h>

using namespace kiln;

static Status verifyFile(const std::string &directory,
                         const CheckpointFile &expected, VerifyLevel level) {
  Result<InputFile> file = InputFile::openSibling(directory, expected.name);
  if (!file.ok())
    return file.status();
  if (file->size() != expected.bytes)
    return Status::badInput(
        "'" + file->path() + "' has " + std::to_string(file->size()) +
        " bytes, the manifest says " + std::to_string(expected.bytes));
  if (level == VerifyLevel::Sizes)
    return Status();
  StreamHash hash;
  std::vector<char> buffer(std::min<uint64_t>(expected.bytes, 1 << 20));
  for (uint64_t position = 0; position < expected.bytes;) {
    if (Status status = checkStop(); !status.ok())
      return status;
    uint64_t count =
        std::min<uint64_t>(buffer.size(), expected.bytes - position);
    if (Status status = file->read(position, buffer.data(), count);
        !status.ok())
      return status;
    hash.update(buffer.data(), count);
    position += count;
  }
  if (hash.hex() != expected.hash)
    return Status::badInput("'" + file->path() +
                            "' is damaged: its content does not match the "
                            "hash in the manifest");
  return Status();
}

static Status verifyFiles(const std::string &path,
                          const CheckpointManifest &manifest,
                          VerifyLevel level) {
  for (const CheckpointFile &file : manifest.files)
    if (Status status = verifyFile(path, file, level); !status.ok())
      return status;
  return Status();
}

Result<FoundCheckpoint> kiln::findCheckpoint(const std::string &path,
                                             VerifyLevel level) {
  struct stat info;
  bool isOne = ::stat((path + "/" + kManifestName).c_str(), &info) == 0 ||
               parseCheckpointName(baseName(path));
  if (isOne) {
    Result<CheckpointManifest> manifest = readManifest(path);
    if (!manifest.ok())
      return manifest.status();
    if (Status status = verifyFiles(path, *manifest, level); !status.ok())
      return status;
    return FoundCheckpoint{path, std::move(*manifest), {}};
  }

  Result<std::vector<ListedCheckpoint>> list = listCheckpoints(path);
  if (!list.ok())
    return list.status();
  if (list->empty())
    return Status::badInput("'" + path +
                            "' holds no checkpoint (checkpoint-<step>)");
  std::vector<std::string> notes;
  // Those without a manifest may have been the newest: they are always noted.
  for (const ListedCheckpoint &entry : *list)
    if (!entry.manifest.ok())
      notes.push_back("passing over '" + entry.path +
                      "': " + entry.manifest.status().message());
  for (auto entry = list->rbegin(); entry != list->rend(); ++entry) {
    if (!entry->manifest.ok())
      continue;
    Status status = verifyFiles(entry->path, *entry->manifest, level);
    if (status.ok())
      return FoundCheckpoint{entry->path, std::move(*entry->manifest),
                             std::move(notes)};
    notes.push_back("passing over '" + entry->path + "': " + status.message());
  }
  return Status::badInput("'" + path +
                          "' holds no valid checkpoint: " + notes.back());
}
