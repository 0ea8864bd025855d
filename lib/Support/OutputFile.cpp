//===- OutputFile.cpp - Atomically replaced output file -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See OutputFile.h.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/OutputFile.h"
#include "kiln/Support/Hash.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Posix.h"
#include <cerrno>
#include <climits>
#include <cstdlib>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

using namespace kiln::support;

struct OutputFile::State {
  std::string path;      ///< Path as given by the caller, for messages.
  std::string target;    ///< `path` with symbolic links resolved.
  std::string temporary; ///< Temporary file; empty after the rename.
  Descriptor file;
  uint64_t bytes = 0;
  StreamHash hash;
  bool failed = false;

  Status fail(const std::string &what, int error) {
    failed = true;
    return Status::error("cannot " + what + " '" + path +
                         "': " + writeFault(error));
  }
  ~State() {
    if (!temporary.empty())
      ::unlink(temporary.c_str());
  }
};

OutputFile::OutputFile(std::unique_ptr<State> state)
    : state_(std::move(state)) {}
OutputFile::OutputFile(OutputFile &&) noexcept = default;
OutputFile &OutputFile::operator=(OutputFile &&) noexcept = default;
OutputFile::~OutputFile() = default;

Result<OutputFile> OutputFile::create(const std::string &path) {
  auto state = std::make_unique<State>();
  state->path = state->target = path;
  struct stat info;
  if (::stat(path.c_str(), &info) == 0) {
    // commit() renames the temporary file to `target`. A rename would replace a
    // device node or a link with a regular file, so reject device nodes and
    // resolve links.
    if (!S_ISREG(info.st_mode))
      return Status::error("cannot write '" + path +
                           "': it exists and is not a regular file");
    if (char *real = ::realpath(path.c_str(), nullptr)) {
      state->target = real;
      std::free(real);
    }
  }
  std::string_view name = baseName(state->target);
  if (name.empty())
    return Status::error("cannot write '" + path + "': it names a directory");

  std::string stem = parentPath(state->target) + "/.tmp-" + std::string(name) +
                     "." + std::to_string(::getpid()) + ".";
  for (int attempt = 0;; ++attempt) {
    std::string temporary = stem + std::to_string(attempt);
    int fd = ::open(temporary.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC,
                    0666);
    if (fd >= 0) {
      state->file = Descriptor(fd);
      state->temporary = std::move(temporary);
      return OutputFile(std::move(state));
    }
    if (errno != EEXIST || attempt == 1000)
      return state->fail("create", errno);
  }
}

const std::string &OutputFile::path() const { return state_->path; }
uint64_t OutputFile::bytesWritten() const { return state_->bytes; }
std::string OutputFile::hash() const { return state_->hash.hex(); }

Status OutputFile::reserve(uint64_t bytes) {
  if (bytes == 0 || bytes > uint64_t(INT64_MAX))
    return Status();
  // Do not call posix_fallocate, which writes zeros if the file system does not
  // support fallocate.
  if (::fallocate(state_->file.get(), 0, 0, bytes) == 0)
    return Status();
  if (errno == ENOSPC || errno == EFBIG || errno == EDQUOT)
    return state_->fail("reserve " + std::to_string(bytes) + " bytes for",
                        errno);
  return Status();
}

Status OutputFile::makeExecutable() {
  struct stat info;
  if (::fstat(state_->file.get(), &info) != 0 ||
      ::fchmod(state_->file.get(),
               info.st_mode | ((info.st_mode & 0444) >> 2)) != 0)
    return state_->fail("set the permissions of", errno);
  return Status();
}

Status OutputFile::write(const void *data, uint64_t bytes) {
  if (state_->failed)
    return state_->fail("write", EIO);
  if (int error = writeAll(state_->file.get(), data, bytes))
    return state_->fail("write", error);
  state_->hash.update(data, bytes);
  state_->bytes += bytes;
  return Status();
}

Status OutputFile::commit() {
  if (state_->failed)
    return state_->fail("write", EIO);
  // Removes the reserved space that was not written.
  if (::ftruncate(state_->file.get(), state_->bytes) != 0)
    return state_->fail("write", errno);
  if (::fsync(state_->file.get()) != 0)
    return state_->fail("sync", errno);
  if (int error = state_->file.close())
    return state_->fail("close", error);
  if (::rename(state_->temporary.c_str(), state_->target.c_str()) != 0)
    return state_->fail("rename to", errno);
  state_->temporary.clear();
  if (int error = syncDirectory(parentPath(state_->target)))
    return state_->fail("sync the directory of", error);
  return Status();
}

Status kiln::support::writeFile(const std::string &path,
                                std::string_view text) {
  Result<OutputFile> file = OutputFile::create(path);
  if (!file.ok())
    return file.status();
  if (Status status = file->write(text.data(), text.size()); !status.ok())
    return status;
  return file->commit();
}
