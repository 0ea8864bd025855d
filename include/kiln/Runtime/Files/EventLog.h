//===- EventLog.h - The JSON-lines log of a run -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One object per line, written with one write call each. A disk that is full
// must not stop training: after a failure the partial line is cut off again,
// the failure is reported once, and later lines are tried anew. Resuming at a
// step cuts the file after the last line of that step, so that no step appears
// twice. One run writes a log: its file is locked.
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

/// Builds one line. Reals have 17 significant digits, whatever the locale. JSON
/// has no NaN: such a value is written as null, and the line gets
/// "nonfinite": "nan", "inf" or "-inf", after the first one.
class LogLine {
public:
  LogLine &integer(std::string_view key, int64_t value);
  LogLine &real(std::string_view key, double value);
  LogLine &text(std::string_view key, std::string_view value);
  LogLine &boolean(std::string_view key, bool value);
  /// `json` is a JSON value already, without line breaks.
  LogLine &json(std::string_view key, std::string_view json);
  /// The finished line, with its line break.
  std::string finish() const;

private:
  void begin(std::string_view key);
  std::string body_;
  std::string nonfinite_;
};

/// The "step" (or "steps") of a line; nothing when it has none or is not JSON.
/// Entry for fuzzers.
std::optional<int64_t> stepOfLine(std::string_view line);

class EventLog {
public:
  using Warn = std::function<void(const std::string &)>;

  /// Opens the file, which is created if needed, and locks it: a second process
  /// fails. Its lines stay until begin(); without a begin(), a file that open()
  /// created goes away with the object. Opening a FIFO waits for its reader.
  /// `warn` is told once when writing fails.
  static Result<EventLog> open(const std::string &path, Warn warn);

  /// Starts an empty file; or, with `resumedStep`, keeps the lines up to the
  /// first of a later step (and cuts off an incomplete last line).
  Status begin(std::optional<int64_t> resumedStep);

  EventLog(EventLog &&other) noexcept;
  EventLog &operator=(EventLog &&other) noexcept;
  ~EventLog();

  /// After begin().
  void write(const LogLine &line);
  /// Lines lost to failures so far.
  int64_t linesLost() const { return linesLost_; }
  /// A failure that counts the lines lost and gives the first reason.
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
