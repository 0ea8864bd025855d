//===- EventLog.h - JSON-lines log of a run ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each line of the log is one JSON object and is written with one system call.
// A full disk does not stop training: a partially written line is removed, the
// first failure is reported, and later lines are still written if possible. A
// run that resumes after step s truncates the file after the last line of step
// s, so that no step occurs twice. The file is locked, because only one run may
// write to it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_FILES_EVENTLOG_H
#define KILN_RUNTIME_FILES_EVENTLOG_H

#include "kiln/Support/Status.h"
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace kiln::runtime {

class LockedFile;

/// Builds one line. Real numbers have 17 significant digits in every locale.
/// NaN and infinities, which JSON lacks, are written as null. The line then has
/// a field "nonfinite", whose value ("nan", "inf" or "-inf") names the first
/// number of the line that is NaN or infinite.
class LogLine {
public:
  LogLine &integer(std::string_view key, int64_t value);
  LogLine &real(std::string_view key, double value);
  LogLine &text(std::string_view key, std::string_view value);
  LogLine &boolean(std::string_view key, bool value);
  /// Adds a field. `json` is the JSON of its value, without line breaks.
  LogLine &json(std::string_view key, std::string_view json);
  /// Returns the complete line, including its line break.
  std::string finish() const;

private:
  void begin(std::string_view key);
  std::string body_;
  std::string nonfinite_;
};

/// Returns the value of the field "step" of a line, or of the field "steps" if
/// there is no "step". Returns nothing if the line has neither field or is not
/// JSON. Entry point for fuzzers.
std::optional<int64_t> stepOfLine(std::string_view line);

class EventLog {
public:
  using Warn = std::function<void(const std::string &)>;

  /// Opens or creates the file and locks it. Fails if another process holds the
  /// lock. The file keeps its contents until begin(); if begin() is never
  /// called, the destructor removes a file that open() created. Opening a FIFO
  /// blocks until it has a reader. `warn` is called at the first failed write.
  static Result<EventLog> open(const std::string &path, Warn warn);

  /// Truncates the file to zero length. With `resumedStep`, instead truncates
  /// the file before the first line whose step exceeds `resumedStep`, and
  /// removes an incomplete last line.
  Status begin(std::optional<int64_t> resumedStep);

  EventLog(EventLog &&other) noexcept;
  EventLog &operator=(EventLog &&other) noexcept;
  ~EventLog();

  /// Writes one line; requires begin().
  void write(const LogLine &line);
  /// Returns the number of lines that could not be written.
  int64_t linesLost() const { return linesLost_; }
  /// Fails if any line could not be written. The message reports the number of
  /// such lines and the first error.
  Status outcome() const;

private:
  EventLog();
  std::string path_;
  Warn warn_;
  std::unique_ptr<LockedFile> file_;
  bool begun_ = false;
  int64_t end_ = 0;
  int64_t linesLost_ = 0;
  int firstError_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_RUNTIME_FILES_EVENTLOG_H
