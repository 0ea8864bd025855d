//===- InputFile.h - A regular file opened for reading ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All reading of user files goes through this class: pread into a buffer of the
// caller, never mmap, so that a file that shrinks while it is in use is an
// error message and not a SIGBUS. Only regular files are accepted; opening
// never blocks on a FIFO.
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
  /// Opens the path a user named; symbolic links are followed.
  static Result<InputFile> open(const std::string &path);

  /// Opens `name`, which was read from a file in `directory`. It must be the
  /// plain name of a file in that directory, and not a symbolic link, except
  /// into the blob store of a Hugging Face cache that holds `directory`.
  static Result<InputFile> openSibling(const std::string &directory,
                                       const std::string &name);

  InputFile(InputFile &&other) noexcept;
  InputFile &operator=(InputFile &&other) noexcept;
  ~InputFile();

  /// The same file once more, even if it has lost its name since.
  Result<InputFile> duplicate() const;

  const std::string &path() const { return path_; }
  /// Bytes at the time of opening.
  uint64_t size() const { return size_; }

  /// Fills `buffer` with [offset, offset + bytes). Fails when the file has
  /// changed its size or modification time since it was opened.
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

/// The whole file, which may have up to `maxBytes` bytes.
Result<std::string> readSmallFile(const std::string &path, uint64_t maxBytes);

} // namespace kiln::support

#endif // KILN_SUPPORT_INPUTFILE_H
