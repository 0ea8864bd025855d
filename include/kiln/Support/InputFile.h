//===- InputFile.h - A regular file opened for reading ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// InputFile reads the files of users. It uses pread instead of mmap, so that a
// file that shrinks while it is read causes an error and not a SIGBUS. Only
// regular files are accepted, and opening a FIFO does not block.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_INPUTFILE_H
#define KILN_SUPPORT_INPUTFILE_H

#include "kiln/Support/Status.h"
#include <cstdint>
#include <string>

namespace kiln::support {

class InputFile {
public:
  /// Opens a path that the user specified. Follows symbolic links.
  static Result<InputFile> open(const std::string &path);

  /// Opens the file `name` in `directory`, where `name` was read from a file in
  /// that directory. Fails unless isPlainName(name) is true. Fails if `name` is
  /// a symbolic link, unless `directory` is in a Hugging Face cache and the
  /// link leads to the blob store of that cache.
  static Result<InputFile> openSibling(const std::string &directory,
                                       const std::string &name);

  InputFile(InputFile &&other) noexcept;
  InputFile &operator=(InputFile &&other) noexcept;
  ~InputFile();

  /// Returns an InputFile with a duplicate of the file descriptor. Succeeds
  /// even if the file has been unlinked or renamed.
  Result<InputFile> duplicate() const;

  const std::string &path() const { return path_; }
  /// Returns the size in bytes that the file had when it was opened.
  uint64_t size() const { return size_; }

  /// Reads [offset, offset + bytes) into `buffer`. Fails if the size or the
  /// modification time of the file has changed since the file was opened.
  Status read(uint64_t offset, void *buffer, uint64_t bytes) const;

private:
  InputFile() = default;
  static Result<InputFile> adopt(int fd, int error, const std::string &path);

  std::string path_;
  int fd_ = -1;
  uint64_t size_ = 0;
  int64_t modifiedSeconds_ = 0;
  int64_t modifiedNanoseconds_ = 0;
};

/// Returns the contents of a file of at most `maxBytes` bytes.
Result<std::string> readSmallFile(const std::string &path, uint64_t maxBytes);

} // namespace kiln::support

#endif // KILN_SUPPORT_INPUTFILE_H
