//===- Posix.h - Small helpers over system calls ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every loop here handles short writes and interruption; an error is returned
// as its errno value, 0 means success.
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
  /// Closes now; the result of close matters for what was written.
  int close();

private:
  int fd_ = -1;
};

/// Writes at the current position.
int writeAll(int fd, const void *data, uint64_t bytes);

/// Writes at `offset`.
int writeAllAt(int fd, const void *data, uint64_t bytes, int64_t offset);

/// Makes the entries of a directory durable.
int syncDirectory(const std::string &path);

/// The directory part of a path ("." when there is none), and the rest.
std::string parentPath(std::string_view path);
std::string_view baseName(std::string_view path);

/// Whether `name`, which comes from a file, is the plain name of a directory
/// entry: no separators, no "..", no control characters, at most 255 bytes.
bool isPlainName(std::string_view name);

} // namespace kiln::support

#endif // KILN_SUPPORT_POSIX_H
