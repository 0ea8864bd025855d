//===- Records.h - Progress output and logs of a run ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Writes each step and each evaluation to the JSONL log, to TensorBoard and to
// stdout. On a terminal, the output of the steps to stdout is a progress bar;
// otherwise it is one line per step. The start and the end of a run are written
// to the log only.
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

/// Clears a progress bar on the terminal, and prints a line to stderr.
void printToStderr(const std::string &line);
/// Prints "warning: " and the message as a line to stderr.
void warn(const std::string &message);
/// Makes printToStderr() and warn() print nothing. All ranks except the first
/// call this function, because they would repeat the messages of the first
/// rank.
void silenceMessages();

struct StepRecord {
  int64_t step = 0;
  double loss = 0;
  double rate = 0;
  std::optional<double> gradNorm;
  /// The scale of the gradients; nullopt if they are not scaled.
  std::optional<double> lossScale;
  /// True if the step changed no state, because a scaled gradient overflowed.
  bool skipped = false;
  int64_t skippedSteps = 0; ///< Number of skipped steps so far.
  double tokensPerSecond = 0;
  double milliseconds = 0;
  /// The time for which the step waited for copies between the arenas.
  /// `milliseconds` includes this time. nullopt if the step has no such copies.
  std::optional<double> copyWaitMilliseconds;
  /// The time for which the step waited for sums over ranks, also part of
  /// `milliseconds`. nullopt if the step has no such sums.
  std::optional<double> sumWaitMilliseconds;
};

class Records {
public:
  /// Opens the log and TensorBoard files without changing them. If start() is
  /// never called, the destructor removes the files that open() created. If
  /// `isRelayed`, a launcher relays stdout, possibly through a pseudo terminal.
  /// In that case no progress bar is drawn, even if stdout seems to be a
  /// terminal.
  static Result<Records> open(const Options &options, bool isRelayed);
  /// Returns records that write nothing.
  static Records silent();

  /// If `resumedStep` is set, keeps the lines of an existing log up to that
  /// step and appends to them.
  Status start(const LogLine &line, int64_t totalSteps,
               std::optional<int64_t> resumedStep);
  void step(const StepRecord &record);
  void evaluation(int64_t step, double loss, int64_t targets);
  /// Logs the time that ranks took to average their states after a step.
  void average(int64_t step, double milliseconds);
  void end(const LogLine &line);
  /// Prints a line for the user to stdout.
  void say(const std::string &line);
  /// Returns an error if a line of the log or a value of the TensorBoard file
  /// could not be written.
  Status outcome() const;

private:
  void drawBar(const StepRecord &record);
  void show(const std::string &text);

  int64_t totalSteps_ = 0;
  bool terminal_ = false;
  bool silent_ = false;
  bool barDrawn_ = false;
  std::chrono::steady_clock::time_point lastBar_;
  double averageMilliseconds_ = 0;
  std::optional<EventLog> log_;
  std::optional<TensorBoardLog> tensorBoard_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_RECORDS_H
