//===- OutputFile.h - Atomically replaced output file -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes to a temporary file in the directory of the destination. `commit`
// syncs the temporary file, renames it to the destination and syncs the
// directory, so that after a crash the path contains either the complete old
// contents or the complete new contents. Without a commit, the temporary file
// is removed. A failed sync is not retried: the operating system marks the
// pages clean after a failed sync, so a second sync of the same file would
// report success.
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

  /// Reserves `bytes` bytes in total, so that a full disk is detected before
  /// anything is written. Does nothing if the file system does not support
  /// reservations.
  Status reserve(uint64_t bytes);
  /// Sets the execute permission for everyone with read permission.
  Status makeExecutable();
  Status write(const void *data, uint64_t bytes);
  Status commit();

  /// Returns the number of bytes written so far.
  uint64_t bytesWritten() const;
  /// Returns XXH3-128 of the bytes written so far, as 32 hexadecimal digits.
  std::string hash() const;

private:
  struct State;
  explicit OutputFile(std::unique_ptr<State> state);
  std::unique_ptr<State> state_;
};

/// Writes a whole file atomically and syncs it.
Status writeFile(const std::string &path, std::string_view text);

} // namespace kiln::support

#endif // KILN_SUPPORT_OUTPUTFILE_H
