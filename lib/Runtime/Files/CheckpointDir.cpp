//===- CheckpointDir.cpp - Durable checkpoints ----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// CheckpointDir.h describes the protocol. save() executes these steps in order:
// sync the files and the manifest, sync the staging directory, rename the
// staging directory, sync the parent directory, write `latest`, remove old
// checkpoints.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/CheckpointDir.h"
#include "CheckpointFormat.h"
#include "LockedFile.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/OutputPath.h"
#include "kiln/Support/Posix.h"
#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <fcntl.h>
#include <filesystem>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <unistd.h>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

namespace {

bool startsWith(std::string_view text, std::string_view prefix) {
  return text.substr(0, prefix.size()) == prefix;
}

/// Removes a directory tree. Returns an error message or "". If the removal
/// fails, the next CheckpointDir::open() removes the remaining files.
std::string removeTree(const std::string &path) {
  std::error_code error;
  std::filesystem::remove_all(path, error);
  return error ? "cannot remove '" + path + "': " + error.message() : "";
}

/// Returns the path of a directory whose name consists of `prefix`, the step of
/// the checkpoint `name`, and the id of this process.
std::string hiddenPath(const std::string &directory, const char *prefix,
                       std::string_view name) {
  return directory + "/" + prefix +
         std::string(name.substr(name.rfind('-') + 1)) + "." +
         std::to_string(::getpid());
}

/// Completes or undoes a replacement of a checkpoint. `path`/`hidden` is the
/// old checkpoint, which was renamed so that a new one could have its name:
///  * If there is no new checkpoint, renames the old one back.
///  * If the new checkpoint is valid, removes the old one.
///  * If the new checkpoint is not valid, changes nothing.
/// `committed` is the name of a checkpoint that is known to be valid, or "".
Status settleReplaced(const std::string &path, const std::string &hidden,
                      const std::string &committed) {
  std::string_view step = hidden;
  step.remove_prefix(std::string_view(kReplacedPrefix).size());
  step = step.substr(0, step.find('.'));
  std::string name = "checkpoint-" + std::string(step);
  if (!parseCheckpointName(name))
    return Status(); // Another program has created `hidden`.
  std::string old = path + "/" + hidden, target = path + "/" + name;
  std::error_code ignored;
  if (!std::filesystem::exists(target, ignored)) {
    if (::rename(old.c_str(), target.c_str()) != 0)
      return Status::error("cannot rename '" + old + "' back to '" + target +
                           "': " + errnoText(errno));
    return Status();
  }
  if (name != committed && !readManifest(target).ok())
    return Status();
  // Rename the checkpoint before removing it, so that a crash does not leave a
  // partially removed checkpoint that a later call could rename back.
  std::string trash = hiddenPath(path, kTrashPrefix, name);
  if (::rename(old.c_str(), trash.c_str()) != 0)
    trash = old;
  std::string fault = removeTree(trash);
  return fault.empty() ? Status() : Status::error(fault);
}

/// Removes the staging directories, trash directories and temporary files that
/// interrupted runs have left, and completes or undoes interrupted replacements
/// of checkpoints (see settleReplaced()). This is safe because the caller holds
/// the lock of the directory. `committed` is the name of the checkpoint that
/// has just been saved, or "".
Status removeLeftovers(const std::string &path, const std::string &committed) {
  std::error_code error;
  std::filesystem::directory_iterator it(path, error), end;
  std::vector<std::string> leftovers;
  for (; !error && it != end; it.increment(error)) {
    std::string name = it->path().filename().string();
    if (startsWith(name, kStagingPrefix) || startsWith(name, kTrashPrefix) ||
        startsWith(name, kReplacedPrefix) || startsWith(name, ".tmp-latest."))
      leftovers.push_back(name);
  }
  if (error)
    return Status::error("cannot list '" + path + "': " + error.message());
  // First complete or undo the interrupted replacements of checkpoints. If that
  // fails, keep all other leftovers.
  for (const std::string &name : leftovers)
    if (startsWith(name, kReplacedPrefix))
      if (Status status = settleReplaced(path, name, committed); !status.ok())
        return status;
  for (const std::string &name : leftovers)
    if (!startsWith(name, kReplacedPrefix))
      if (std::string fault = removeTree(path + "/" + name); !fault.empty())
        return Status::error(fault);
  return Status();
}

void noteSequences(const std::vector<ListedCheckpoint> &list, int64_t &last) {
  for (const ListedCheckpoint &entry : list)
    if (entry.manifest.ok())
      last = std::max(last, entry.manifest->sequence);
}

/// Fails if no sequence number is above `last`, the highest one in `path`.
Status checkSequence(const std::string &path, int64_t last) {
  if (last < INT64_MAX)
    return Status();
  return Status::error("'" + path +
                       "' holds a checkpoint with the highest possible "
                       "sequence number, " +
                       std::to_string(last) +
                       "; choose another directory to save in");
}

} // namespace

Status CheckpointStage::checkName(const std::string &name) const {
  if (!isPlainName(name) || name == kManifestName)
    return Status::error("a checkpoint cannot hold a file named " +
                         inQuotes(name));
  for (const CheckpointFile &file : files_)
    if (file.name == name)
      return Status::error("a checkpoint cannot hold two files named " +
                           inQuotes(name));
  return Status();
}

Status CheckpointStage::addText(const std::string &name,
                                std::string_view text) {
  if (Status status = checkName(name); !status.ok())
    return status;
  Result<OutputFile> file = OutputFile::create(directory_ + "/" + name);
  if (!file.ok())
    return file.status();
  if (Status status = file->write(text.data(), text.size()); !status.ok())
    return status;
  if (Status status = file->commit(); !status.ok())
    return status;
  files_.push_back({name, file->bytesWritten(), file->hash()});
  return Status();
}

Status CheckpointStage::addTensors(
    const std::string &name, std::vector<TensorDeclaration> tensors,
    const std::function<Status(SafeTensorsWriter &)> &fill) {
  if (Status status = checkName(name); !status.ok())
    return status;
  Result<SafeTensorsWriter> writer =
      SafeTensorsWriter::create(directory_ + "/" + name, std::move(tensors));
  if (!writer.ok())
    return writer.status();
  if (Status status = fill(*writer); !status.ok())
    return status;
  if (Status status = writer->finish(); !status.ok())
    return status;
  files_.push_back({name, writer->fileBytes(), writer->hash()});
  return Status();
}

Result<CheckpointDir> CheckpointDir::open(const std::string &path) {
  Result<bool> created = makeDirectory(path);
  if (!created.ok())
    return created.status();
  CheckpointDir result;
  result.path_ = path;
  result.created_ = *created;
  std::string lock = path + "/.lock";
  if (int error = result.lock_->open(lock, O_RDWR))
    return Status::error("cannot write into '" + path +
                         "': " + errnoText(error) +
                         "; choose another directory to save in");
  if (int error = result.lock_->lockError())
    return Status::error(
        error == EWOULDBLOCK
            ? "'" + path +
                  "' is in use by another run; choose another directory to "
                  "save in, or wait for that run to end"
            : "cannot lock '" + lock + "': " + errnoText(error));
  if (Status status = removeLeftovers(path, ""); !status.ok())
    return status;
  if (Status status = tryOutputFile(path + "/latest"); !status.ok())
    return status;

  Result<std::vector<ListedCheckpoint>> existing = listCheckpoints(path);
  if (!existing.ok())
    return Status::error(existing.status().message());
  noteSequences(*existing, result.lastSequence_);
  if (Status status = checkSequence(path, result.lastSequence_); !status.ok())
    return status;
  return result;
}

CheckpointDir::CheckpointDir() : lock_(std::make_unique<LockedFile>()) {}

CheckpointDir::CheckpointDir(CheckpointDir &&other) noexcept {
  *this = std::move(other);
}

CheckpointDir &CheckpointDir::operator=(CheckpointDir &&other) noexcept {
  std::swap(path_, other.path_);
  std::swap(lock_, other.lock_);
  std::swap(created_, other.created_);
  std::swap(used_, other.used_);
  std::swap(lastSequence_, other.lastSequence_);
  return *this;
}

CheckpointDir::~CheckpointDir() {
  if (used_ || !lock_)
    return;
  lock_->removeIfCreated();
  // If another run has locked this directory in the meantime, rmdir fails,
  // because the directory contains the lock file of that run.
  if (created_)
    (void)::rmdir(path_.c_str());
}

std::vector<int64_t> CheckpointDir::steps() const {
  std::vector<int64_t> steps;
  if (Result<std::vector<ListedCheckpoint>> list = listCheckpoints(path_);
      list.ok())
    for (const ListedCheckpoint &entry : *list)
      steps.push_back(entry.step);
  return steps;
}

Status CheckpointDir::checkFreeSpace(uint64_t bytes) const {
  return runtime::checkFreeSpace(path_, bytes, "a checkpoint");
}

Status kiln::runtime::checkFreeSpace(const std::string &path, uint64_t bytes,
                                     const std::string &what) {
  struct statvfs info;
  // If statvfs fails or the file system reports no blocks, the free space is
  // unknown. In that case the check succeeds.
  if (::statvfs(path.c_str(), &info) != 0 || info.f_blocks == 0)
    return Status();
  uint64_t available;
  if (__builtin_mul_overflow(uint64_t(info.f_bavail), uint64_t(info.f_frsize),
                             &available) ||
      available >= bytes)
    return Status();
  return Status::error("'" + path + "' has " + std::to_string(available) +
                       " bytes free, but " + what + " needs " +
                       std::to_string(bytes) +
                       "; free space or choose another directory");
}

Status CheckpointDir::save(int64_t step,
                           const std::function<Status(CheckpointStage &)> &fill,
                           const nlohmann::json &extra, int keep,
                           std::vector<std::string> &notes) {
  used_ = true;
  Result<std::vector<ListedCheckpoint>> existing = listCheckpoints(path_);
  if (!existing.ok())
    return Status::error(existing.status().message());
  CheckpointManifest manifest;
  manifest.step = step;
  manifest.extra = extra;
  noteSequences(*existing, lastSequence_);
  if (Status status = checkSequence(path_, lastSequence_); !status.ok())
    return status;
  manifest.sequence = lastSequence_ + 1;

  std::string staging = path_ + "/" + kStagingPrefix + std::to_string(step) +
                        "." + std::to_string(::getpid());
  removeTree(staging); // A failed save may have left a directory of this name.
  if (::mkdir(staging.c_str(), 0777) != 0)
    return Status::error("cannot create '" + staging +
                         "': " + errnoText(errno));

  CheckpointStage stage(staging);
  Status status = fill(stage);
  if (status.ok()) {
    manifest.files = std::move(stage.files_);
    status = writeFile(staging + "/" + kManifestName, manifestText(manifest));
  }
  if (status.ok())
    status = commit(staging, checkpointName(step));
  if (!status.ok()) {
    removeTree(staging);
    return status;
  }

  lastSequence_ = manifest.sequence;

  // The rename has succeeded, so the new checkpoint stays even if a later
  // operation fails. Do not remove older checkpoints before the new checkpoint
  // has been synced to disk.
  if (int error = syncDirectory(path_)) {
    notes.push_back("checkpoint-" + std::to_string(step) + " is saved, but '" +
                    path_ + "' could not be synced: " + errnoText(error) +
                    "; older checkpoints are kept");
    return Status();
  }
  // If the new checkpoint has replaced one of the same name, removeLeftovers
  // removes the replaced checkpoint too.
  if (Status leftovers = removeLeftovers(path_, checkpointName(step));
      !leftovers.ok())
    notes.push_back(leftovers.message());
  if (Status latest = writeFile(path_ + "/latest", checkpointName(step) + "\n");
      !latest.ok())
    notes.push_back(latest.message());
  if (keep > 0)
    prune(keep, notes);
  return Status();
}

/// Renames the complete staging directory to `name`. If a checkpoint of this
/// name exists, exchanges the two directories atomically, if the system
/// supports this. A checkpoint of this name then exists at any time.
Status CheckpointDir::commit(const std::string &staging,
                             const std::string &name) {
  std::string target = path_ + "/" + name;
  auto rename = [&](unsigned flags) {
    return ::renameat2(AT_FDCWD, staging.c_str(), AT_FDCWD, target.c_str(),
                       flags) == 0
               ? 0
               : errno;
  };
  int error = rename(RENAME_NOREPLACE);
  if (error == EEXIST)
    error = rename(RENAME_EXCHANGE);
  if (error == EINVAL || error == ENOSYS) {
    // The system does not support renameat2 with these flags. A rename without
    // flags does not replace a nonempty directory. Therefore move the old
    // checkpoint away before the rename. If the process ends in between, the
    // next open() restores the old checkpoint.
    std::string replaced = hiddenPath(path_, kReplacedPrefix, name);
    bool moved = ::rename(target.c_str(), replaced.c_str()) == 0;
    error = ::rename(staging.c_str(), target.c_str()) == 0 ? 0 : errno;
    if (error != 0 && moved)
      (void)::rename(replaced.c_str(), target.c_str());
  }
  if (error != 0)
    return Status::error("cannot rename '" + staging + "' to '" + target +
                         "': " + errnoText(error));
  return Status();
}

void CheckpointDir::prune(int keep, std::vector<std::string> &notes) const {
  Result<std::vector<ListedCheckpoint>> list = listCheckpoints(path_);
  if (!list.ok()) {
    notes.push_back(list.status().message());
    return;
  }
  // Directories without a valid manifest may have been created by another
  // program. Therefore they do not count toward `keep` and are not removed.
  list->erase(std::remove_if(list->begin(), list->end(),
                             [](const ListedCheckpoint &entry) {
                               return !entry.manifest.ok();
                             }),
              list->end());
  for (std::size_t i = 0; i + keep < list->size(); ++i) {
    const std::string &path = (*list)[i].path;
    std::string trash = hiddenPath(path_, kTrashPrefix, baseName(path));
    // Rename the checkpoint before removing it, so that a crash does not leave
    // a partially removed checkpoint under a checkpoint name.
    if (::rename(path.c_str(), trash.c_str()) != 0) {
      notes.push_back("cannot remove the old '" + path +
                      "': " + errnoText(errno));
      continue;
    }
    if (std::string fault = removeTree(trash); !fault.empty())
      notes.push_back(fault);
  }
}
