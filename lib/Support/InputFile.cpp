//===- InputFile.cpp - A regular file opened for reading ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See InputFile.h.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/InputFile.h"
#include "kiln/Support/Messages.h"
#include "kiln/Support/Posix.h"
#include <cerrno>
#include <cstdlib>
#include <fcntl.h>
#include <memory>
#include <sys/stat.h>
#include <unistd.h>

using namespace kiln::support;

namespace {

// Without O_NONBLOCK, opening a FIFO would block until it has a writer.
constexpr int kOpenFlags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY;

std::string realPath(const std::string &path) {
  std::unique_ptr<char, void (*)(void *)> real(
      ::realpath(path.c_str(), nullptr), std::free);
  return real ? real.get() : "";
}

/// Returns the target of `path` if `path` is a link from a snapshot of a
/// Hugging Face cache (snapshots/<revision>/) to its blob store (blobs/<hash>),
/// or "" otherwise.
std::string blobOfSnapshot(const std::string &directory,
                           const std::string &path) {
  std::string snapshots = parentPath(realPath(directory));
  if (baseName(snapshots) != "snapshots")
    return "";
  std::string target = realPath(path);
  std::string blobs = realPath(parentPath(snapshots) + "/blobs");
  return !blobs.empty() && parentPath(target) == blobs ? target : "";
}

} // namespace

Result<InputFile> InputFile::adopt(int fd, int error, const std::string &path) {
  if (fd < 0)
    return Status::badInput("cannot open '" + path + "': " + errnoText(error));
  InputFile file;
  file.path_ = path;
  file.fd_ = fd;
  struct stat info;
  if (::fstat(fd, &info) != 0)
    return Status::badInput("cannot examine '" + path +
                            "': " + errnoText(errno));
  if (!S_ISREG(info.st_mode))
    return Status::badInput("'" + path + "' is " +
                            (S_ISDIR(info.st_mode)    ? "a directory"
                             : S_ISFIFO(info.st_mode) ? "a pipe"
                                                      : "a device or socket") +
                            ", expected a regular file");
  file.size_ = info.st_size;
  file.modifiedSeconds_ = info.st_mtim.tv_sec;
  file.modifiedNanoseconds_ = info.st_mtim.tv_nsec;
  return file;
}

Result<InputFile> InputFile::open(const std::string &path) {
  int fd = ::open(path.c_str(), kOpenFlags);
  return adopt(fd, errno, path);
}

Result<InputFile> InputFile::openSibling(const std::string &directory,
                                         const std::string &name) {
  if (!isPlainName(name))
    return Status::badInput("'" + directory + "': file name " + inQuotes(name) +
                            " is invalid: expected the name of a file in this "
                            "directory, without a path");
  // `name` has one path component, so O_NOFOLLOW ensures that the opened file
  // is in `directory`.
  std::string path = directory + "/" + name;
  int fd = ::open(path.c_str(), kOpenFlags | O_NOFOLLOW);
  if (fd >= 0 || errno != ELOOP)
    return adopt(fd, errno, path);
  std::string blob = blobOfSnapshot(directory, path);
  if (blob.empty())
    return Status::badInput("'" + path +
                            "' is a symbolic link, which is not followed; "
                            "replace the link with the file");
  fd = ::open(blob.c_str(), kOpenFlags | O_NOFOLLOW);
  return adopt(fd, errno, path);
}

Result<InputFile> InputFile::duplicate() const {
  InputFile copy;
  copy.fd_ = ::fcntl(fd_, F_DUPFD_CLOEXEC, 0);
  if (copy.fd_ < 0)
    return Status::error("cannot open '" + path_ +
                         "' again: " + errnoText(errno));
  copy.path_ = path_;
  copy.size_ = size_;
  copy.modifiedSeconds_ = modifiedSeconds_;
  copy.modifiedNanoseconds_ = modifiedNanoseconds_;
  return copy;
}

InputFile::InputFile(InputFile &&other) noexcept { *this = std::move(other); }

InputFile &InputFile::operator=(InputFile &&other) noexcept {
  std::swap(path_, other.path_);
  std::swap(fd_, other.fd_);
  std::swap(size_, other.size_);
  std::swap(modifiedSeconds_, other.modifiedSeconds_);
  std::swap(modifiedNanoseconds_, other.modifiedNanoseconds_);
  return *this;
}

InputFile::~InputFile() {
  if (fd_ >= 0)
    ::close(fd_);
}

Status InputFile::read(uint64_t offset, void *buffer, uint64_t bytes) const {
  struct stat info;
  if (::fstat(fd_, &info) != 0)
    return Status::badInput("cannot examine '" + path_ +
                            "': " + errnoText(errno));
  if (uint64_t(info.st_size) != size_)
    return Status::badInput("'" + path_ +
                            "' changed while it was in use: it had " +
                            std::to_string(size_) + " bytes and now has " +
                            std::to_string(info.st_size));
  if (info.st_mtim.tv_sec != modifiedSeconds_ ||
      info.st_mtim.tv_nsec != modifiedNanoseconds_)
    return Status::badInput("'" + path_ +
                            "' was written to while it was in use");
  if (offset > size_ || bytes > size_ - offset)
    return Status::badInput(
        "'" + path_ + "': cannot read " + std::to_string(bytes) +
        " bytes at offset " + std::to_string(offset) +
        ", because the size of the file is " + std::to_string(size_));
  auto *next = static_cast<char *>(buffer);
  while (bytes > 0) {
    ssize_t count = ::pread(fd_, next, bytes, offset);
    if (count < 0 && errno == EINTR)
      continue;
    if (count < 0)
      return Status::badInput("cannot read '" + path_ + "' at offset " +
                              std::to_string(offset) + ": " + errnoText(errno));
    if (count == 0)
      return Status::badInput("'" + path_ + "' was cut short to " +
                              std::to_string(offset) +
                              " bytes while it was in use");
    next += count;
    offset += count;
    bytes -= count;
  }
  return Status();
}

Result<std::string> kiln::support::readSmallFile(const std::string &path,
                                                 uint64_t maxBytes) {
  Result<InputFile> file = InputFile::open(path);
  if (!file.ok())
    return file.status();
  if (file->size() > maxBytes)
    return Status::badInput(
        "'" + path + "' has " + std::to_string(file->size()) +
        " bytes, expected at most " + std::to_string(maxBytes));
  std::string text(file->size(), '\0');
  if (Status status = file->read(0, text.data(), text.size()); !status.ok())
    return status;
  return text;
}
