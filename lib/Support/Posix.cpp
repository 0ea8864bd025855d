//===- Posix.cpp - Helpers for system calls -------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// See Posix.h.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Posix.h"
#include <cerrno>
#include <fcntl.h>
#include <unistd.h>

using namespace kiln::support;

Descriptor::~Descriptor() {
  if (fd_ >= 0)
    ::close(fd_);
}

int Descriptor::close() { return ::close(release()) == 0 ? 0 : errno; }

int kiln::support::writeAll(int fd, const void *data, uint64_t bytes) {
  auto *next = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = ::write(fd, next, bytes);
    if (written < 0) {
      if (errno == EINTR)
        continue;
      return errno;
    }
    if (written == 0)
      return ENOSPC;
    next += written;
    bytes -= written;
  }
  return 0;
}

int kiln::support::writeAllAt(int fd, const void *data, uint64_t bytes,
                              int64_t offset) {
  auto *next = static_cast<const char *>(data);
  while (bytes > 0) {
    ssize_t written = ::pwrite(fd, next, bytes, offset);
    if (written < 0) {
      if (errno == EINTR)
        continue;
      return errno;
    }
    if (written == 0)
      return ENOSPC;
    next += written;
    offset += written;
    bytes -= written;
  }
  return 0;
}

int kiln::support::syncDirectory(const std::string &path) {
  Descriptor directory(
      ::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  if (!directory.valid())
    return errno;
  // File systems that do not sync directories return EINVAL.
  if (::fsync(directory.get()) != 0 && errno != EINVAL)
    return errno;
  return 0;
}

std::string kiln::support::parentPath(std::string_view path) {
  std::size_t slash = path.rfind('/');
  if (slash == std::string_view::npos)
    return ".";
  return slash == 0 ? "/" : std::string(path.substr(0, slash));
}

std::string_view kiln::support::baseName(std::string_view path) {
  std::size_t slash = path.rfind('/');
  return slash == std::string_view::npos ? path : path.substr(slash + 1);
}

bool kiln::support::isPlainName(std::string_view name) {
  if (name.empty() || name.size() > 255 || name == "." || name == "..")
    return false;
  for (unsigned char c : name)
    if (c == '/' || c == '\\' || c < 0x20 || c == 0x7f)
      return false;
  return true;
}
