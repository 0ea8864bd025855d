//===- Records.h - Progress output and logs of a run ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each event is one call, which writes to the JSONL log, to TensorBoard and to
// stdout: a progress bar on a terminal, one line per step otherwise.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_RECORDS_H
#define KILN_LIB_RUNTIME_TRAINING_RECORDS_H

#include "kiln/Runtime/Files/EventLog.h"
#include "kiln/Runtime/Files/TensorBoard.h"
#include "kiln/Runtime/Training/Options.h"
#include "kiln/Support/Status.h"

#include <chrono>
#include <optional>
#include <string>

namespace kiln::runtime {

/// Prints a line to stderr after clearing a progress bar.
void printToStderr(const std::string &line);
/// Prints a line that starts with "warning: " to stderr.
void warn(const std::string &message);

struct StepRecord {
  int64_t step = 0;
  double loss = 0;
  double rate = 0;
  std::optional<double> gradNorm;
  double tokensPerSecond = 0;
  double milliseconds = 0;
  /// The part of `milliseconds` spent waiting for copies between the arenas;
  /// nullopt if there are no such copies.
  std::optional<double> copyWaitMilliseconds;
};

class Records {
public:
  /// Opens the files without changing them. If start() is not called, the
  /// destructor removes the files that open() created.
  static Result<Records> open(const Options &options);

  /// If `resumedStep` is set, the log continues after that step.
  Status start(const LogLine &line, int64_t totalSteps,
               std::optional<int64_t> resumedStep);
  void step(const StepRecord &record);
  void evaluation(int64_t step, double loss, int64_t targets);
  void end(const LogLine &line);
  /// Prints a line for the user to stdout.
  void say(const std::string &line);
  /// Fails if part of the log or of the TensorBoard file was lost.
  Status outcome() const;

private:
  void drawBar(const StepRecord &record);
  void show(const std::string &text);

  int64_t totalSteps_ = 0;
  bool terminal_ = false;
  bool barDrawn_ = false;
  std::chrono::steady_clock::time_point lastBar_;
  double averageMilliseconds_ = 0;
  std::optional<EventLog> log_;
  std::optional<TensorBoardLog> tensorBoard_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_RECORDS_H
