//===- TensorBoard.h - Scalars for TensorBoard ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes TensorBoard's event file format: a sequence of records with masked
// CRC-32C checksums. Each record contains an Event message with a few fields. A
// crash can leave a truncated last record, which readers tolerate. A resumed
// run starts a new file.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_FILES_TENSORBOARD_H
#define KILN_RUNTIME_FILES_TENSORBOARD_H

#include "kiln/Support/Status.h"
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

namespace kiln::runtime {

uint32_t crc32c(std::string_view bytes);

/// Returns the record that every event file begins with.
std::string tensorBoardVersionRecord(double wallTime);
std::string tensorBoardScalarRecord(double wallTime, int64_t step,
                                    std::string_view tag, float value);

class TensorBoardLog {
public:
  using Warn = std::function<void(const std::string &)>;

  /// Creates a new file in `directory`, and the directory if needed. If
  /// scalar() is never called, the destructor removes what open() created.
  /// `warn` is called at the first failed write.
  static Result<TensorBoardLog> open(const std::string &directory, Warn warn);

  TensorBoardLog(TensorBoardLog &&other) noexcept;
  TensorBoardLog &operator=(TensorBoardLog &&other) noexcept;
  ~TensorBoardLog();

  const std::string &path() const { return path_; }
  /// Writes one scalar. The tags train/loss, train/learning_rate,
  /// train/grad_norm and eval/loss are those of the Hugging Face Trainer. The
  /// tag perf/tokens_per_second is specific to kiln.
  void scalar(std::string_view tag, int64_t step, double value);
  /// Fails if any scalar could not be written. The message reports the number
  /// of such scalars and the first error.
  Status outcome() const;

private:
  TensorBoardLog() = default;
  void append(const std::string &record);
  /// The directory if open() created it, so that the destructor can remove the
  /// directory; otherwise empty.
  std::string directory_;
  std::string path_;
  Warn warn_;
  int fd_ = -1;
  bool used_ = false;
  int64_t end_ = 0;
  int64_t lost_ = 0;
  int firstError_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_RUNTIME_FILES_TENSORBOARD_H
