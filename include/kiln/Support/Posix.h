//===- Posix.h - Helpers for system calls -----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The functions that write or sync handle short writes and interrupted calls.
// They return an errno value, or 0 on success.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_POSIX_H
#define KILN_SUPPORT_POSIX_H

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace kiln::support {

/// Owns a file descriptor.
class Descriptor {
public:
  Descriptor() = default;
  explicit Descriptor(int fd) : fd_(fd) {}
  Descriptor(Descriptor &&other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  Descriptor &operator=(Descriptor &&other) noexcept {
    std::swap(fd_, other.fd_);
    return *this;
  }
  ~Descriptor();
  int get() const { return fd_; }
  bool valid() const { return fd_ >= 0; }
  int release() { return std::exchange(fd_, -1); }
  /// Closes the descriptor and returns the error of close, which may report
  /// lost writes.
  int close();

private:
  int fd_ = -1;
};

/// Writes all bytes at the current position.
int writeAll(int fd, const void *data, uint64_t bytes);

/// Writes all bytes at `offset`.
int writeAllAt(int fd, const void *data, uint64_t bytes, int64_t offset);

/// Syncs the entries of a directory to disk.
int syncDirectory(const std::string &path);

/// Return the directory of `path` ("." if `path` has none) and the last
/// component of `path`, respectively.
std::string parentPath(std::string_view path);
std::string_view baseName(std::string_view path);

/// Returns true if the untrusted `name` is neither empty nor "." nor "..",
/// contains no slashes, backslashes or control characters, and has at most 255
/// bytes.
bool isPlainName(std::string_view name);

} // namespace kiln::support

#endif // KILN_SUPPORT_POSIX_H
