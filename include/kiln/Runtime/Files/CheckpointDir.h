//===- CheckpointDir.h - Durable checkpoints --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A checkpoint is a directory DIR/checkpoint-<step>. It is written under
// another name, file by file, each synced; its manifest (sizes and XXH3-128 of
// all files) is written last; then the directory is renamed, which is the
// commit. At any moment a crash leaves either the previous checkpoints or those
// and the new one. Saving can fail at any point without harm to older
// checkpoints.
//
// "Newest" is by the sequence number in the manifest, which grows by one with
// each save into DIR, not by step: after a resume from an older checkpoint the
// steps start over, and what was saved last is what counts.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_FILES_CHECKPOINTDIR_H
#define KILN_RUNTIME_FILES_CHECKPOINTDIR_H

#include "kiln/Support/ModelWeights.h"
#include "kiln/Support/SafeTensors.h"
#include "kiln/Support/Status.h"
#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

namespace kiln::runtime {

class LockedFile;

struct CheckpointFile {
  std::string name;
  uint64_t bytes = 0;
  std::string hash;
};

struct CheckpointManifest {
  int64_t step = 0;
  int64_t sequence = 0;
  std::vector<CheckpointFile> files;
  nlohmann::json extra; ///< whatever the caller gave to save()
};

/// Entry for fuzzers: touches nothing but its input. Checks the manifest's own
/// hash, and that all names are plain.
Result<CheckpointManifest> parseManifest(std::string_view json,
                                         const std::string &source);

/// The checkpoint under construction; files go in one after the other.
class CheckpointStage {
public:
  Status addText(const std::string &name, std::string_view text);
  /// `fill` appends the data of all tensors, in order, through write().
  Status
  addTensors(const std::string &name,
             std::vector<support::TensorDeclaration> tensors,
             const std::function<Status(support::SafeTensorsWriter &)> &fill);

private:
  friend class CheckpointDir;
  explicit CheckpointStage(std::string directory)
      : directory_(std::move(directory)) {}
  Status checkName(const std::string &name) const;
  std::string directory_;
  std::vector<CheckpointFile> files_;
};

class CheckpointDir {
public:
  /// Creates `path` if needed, takes its lock (a second process fails), removes
  /// what dead runs left, and proves that it can be written. What open()
  /// creates goes away with the object unless save() was called.
  static Result<CheckpointDir> open(const std::string &path);

  CheckpointDir(CheckpointDir &&other) noexcept;
  CheckpointDir &operator=(CheckpointDir &&other) noexcept;
  ~CheckpointDir();

  const std::string &path() const { return path_; }
  /// Steps of the checkpoints there, oldest first. A caller that does not
  /// resume may want to refuse a directory that is not empty.
  std::vector<int64_t> steps() const;
  /// Fails when the file system has not `bytes` free.
  Status checkFreeSpace(uint64_t bytes) const;

  /// Writes checkpoint-<step>; `fill` adds the files, `extra` goes into the
  /// manifest. Afterwards only the newest `keep` checkpoints stay (0: all). An
  /// older checkpoint of the same step is replaced atomically. After a failure
  /// nothing new is left. `notes` gets what went wrong after the commit.
  Status save(int64_t step,
              const std::function<Status(CheckpointStage &)> &fill,
              const nlohmann::json &extra, int keep,
              std::vector<std::string> &notes);

private:
  CheckpointDir();
  Status commit(const std::string &staging, const std::string &name);
  void prune(int keep, std::vector<std::string> &notes) const;
  std::string path_;
  std::unique_ptr<LockedFile> lock_;
  bool created_ = false; ///< The directory, by open().
  bool used_ = false;    ///< save() was called.
  /// The highest sequence number seen, so that one manifest that cannot be read
  /// for a moment does not make the next checkpoint look old.
  int64_t lastSequence_ = -1;
};

/// A checkpoint that was found and checked. Its files are open: they can be
/// read even after another process has removed or replaced the directory.
struct FoundCheckpoint {
  std::string path; ///< the checkpoint-<step> directory
  CheckpointManifest manifest;
  /// One line for each newer checkpoint that was passed over.
  std::vector<std::string> notes;
  /// The files of the manifest by name.
  std::map<std::string, support::InputFile> files = {};

  /// The file `name`, as it was checked.
  Result<support::InputFile> open(const std::string &name) const;
};

enum class VerifyLevel { Sizes, Hashes };

/// `path` is one checkpoint, which must be valid, or a directory of them, of
/// which the newest valid one is taken. Every file is checked. If another
/// process removes or replaces a checkpoint meanwhile, the search starts again,
/// a bounded number of times.
Result<FoundCheckpoint> findCheckpoint(const std::string &path,
                                       VerifyLevel level = VerifyLevel::Hashes);

/// Opens weights as ModelWeights::open does. If `path` is a directory of
/// checkpoints, the failure names the newest one.
Result<support::ModelWeights> openWeights(const std::string &path);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_FILES_CHECKPOINTDIR_H
