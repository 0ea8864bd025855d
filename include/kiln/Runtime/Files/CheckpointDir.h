//===- CheckpointDir.h - Durable checkpoints --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A checkpoint is a directory DIR/checkpoint-<step>. A new checkpoint is
// written to a directory with a temporary name: first all files except the
// manifest, then the manifest, which contains the sizes and XXH3-128 hashes of
// the other files. Each file is synced. Renaming the directory commits the
// checkpoint. Neither a crash nor a failed save damages the previous
// checkpoints.
//
// The newest checkpoint is the one with the highest sequence number in its
// manifest, not the one with the highest step. Each save into DIR increments
// the sequence number, whereas the step decreases after a resume from an older
// checkpoint.
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
  nlohmann::json extra; ///< The `extra` argument of save().
};

/// Parses a manifest. Fails if the contents of the manifest do not match the
/// hash at its end, or if a file name is not a single path component
/// (isPlainName()). Entry point for fuzzers: accesses nothing but its
/// arguments.
Result<CheckpointManifest> parseManifest(std::string_view json,
                                         const std::string &source);

/// A checkpoint to which files are still being added.
class CheckpointStage {
public:
  Status addText(const std::string &name, std::string_view text);
  /// Adds a safetensors file. `fill` appends the data of all tensors, in order,
  /// through SafeTensorsWriter::write().
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
  /// Creates `path` if needed, locks it, removes the remains of interrupted
  /// saves, and checks that the directory is writable. Fails if another process
  /// holds the lock. If save() is never called, the destructor removes what
  /// open() created.
  static Result<CheckpointDir> open(const std::string &path);

  CheckpointDir(CheckpointDir &&other) noexcept;
  CheckpointDir &operator=(CheckpointDir &&other) noexcept;
  ~CheckpointDir();

  const std::string &path() const { return path_; }
  /// Returns the steps of the checkpoints in the directory, oldest first. A run
  /// that does not resume can refuse a directory in which there are any.
  std::vector<int64_t> steps() const;
  /// Fails if the file system has less than `bytes` of free space.
  Status checkFreeSpace(uint64_t bytes) const;

  /// Writes checkpoint-<step> and atomically replaces any existing checkpoint
  /// of this step. `fill` adds the files, and `extra` is stored in the
  /// manifest. Then removes all but the newest `keep` checkpoints (0: keeps
  /// all). A failure leaves no new files. Problems after the commit are
  /// appended to `notes`.
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
  bool created_ = false; ///< True if open() created the directory.
  bool used_ = false;    ///< True if save() was called.
  /// The highest sequence number read so far. The next save uses a higher
  /// number, even if the manifest with this number can no longer be read.
  int64_t lastSequence_ = -1;
};

/// Fails if the file system of the directory `path` has less than `bytes` of
/// free space. `what` names the data that needs the space, such as "a
/// checkpoint", in the message.
Status checkFreeSpace(const std::string &path, uint64_t bytes,
                      const std::string &what);

/// A checkpoint that was found and verified. Its files are open and stay
/// readable after another process has removed or replaced the directory.
struct FoundCheckpoint {
  std::string path; ///< The checkpoint-<step> directory.
  CheckpointManifest manifest;
  /// One line for each skipped checkpoint that is newer than this checkpoint.
  std::vector<std::string> notes;
  /// The files of the manifest, indexed by name.
  std::map<std::string, support::InputFile> files = {};

  /// Returns the verified file `name`.
  Result<support::InputFile> open(const std::string &name) const;
};

enum class VerifyLevel { Sizes, Hashes };

/// If `path` is a checkpoint, verifies it. If `path` is a directory of
/// checkpoints, finds the newest valid one. `level` determines whether the
/// sizes or both the sizes and the hashes of the files are verified. Restarts,
/// a bounded number of times, if another process removes or replaces a
/// checkpoint during the search.
Result<FoundCheckpoint> findCheckpoint(const std::string &path,
                                       VerifyLevel level = VerifyLevel::Hashes);

/// Opens weights as ModelWeights::open does. If `path` is a directory of
/// checkpoints, the error message names the newest checkpoint.
Result<support::ModelWeights> openWeights(const std::string &path);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_FILES_CHECKPOINTDIR_H
