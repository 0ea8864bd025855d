//===- OutputFile.h - A file that appears whole or not at all ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Bytes go to a new file beside the destination. `commit` syncs it, renames it
// over the destination and syncs the directory: after a crash the path holds
// either the old content or all of the new one. Without a commit nothing stays
// behind. A failed sync is final: kernels mark the pages clean, so that a
// second sync of the same file would claim success.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_OUTPUTFILE_H
#define KILN_SUPPORT_OUTPUTFILE_H

#include "kiln/Support/Status.h"
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace kiln::support {

class OutputFile {
public:
  static Result<OutputFile> create(const std::string &path);

  OutputFile(OutputFile &&other) noexcept;
  OutputFile &operator=(OutputFile &&other) noexcept;
  /// Removes the temporary file unless commit() succeeded.
  ~OutputFile();

  const std::string &path() const;

  /// Asks the file system to set aside `bytes` in total, so that a full disk
  /// shows before anything is written. Where that is not supported, does
  /// nothing.
  Status reserve(uint64_t bytes);
  /// Lets those execute the file who may read it.
  Status makeExecutable();
  Status write(const void *data, uint64_t bytes);
  Status commit();

  /// Of the bytes written so far.
  uint64_t bytesWritten() const;
  /// XXH3-128 of the bytes written so far, as 32 hexadecimal digits.
  std::string hash() const;

private:
  struct State;
  explicit OutputFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Writes a whole file durably.
Status writeFile(const std::string &path, std::string_view text);

} // namespace kiln::support

#endif // KILN_SUPPORT_OUTPUTFILE_H
