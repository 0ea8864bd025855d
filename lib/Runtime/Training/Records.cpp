//===- Records.cpp - Progress output and logs of a run --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Records.h"

#include "kiln/Support/Process.h"

#include <algorithm>
#include <cstdio>
#include <unistd.h>

using namespace kiln::support;

namespace kiln::runtime {

static bool isSilent = false;

void silenceMessages() { isSilent = true; }

void printToStderr(const std::string &line) {
  if (isSilent)
    return;
  std::fflush(stdout);
  if (!waitForWriting(STDERR_FILENO))
    return;
  std::fprintf(stderr, "%s%s\n", isatty(STDERR_FILENO) ? "\r\x1b[K" : "",
               line.c_str());
}

void warn(const std::string &message) { printToStderr("warning: " + message); }

Result<Records> Records::open(const Options &options, bool isRelayed) {
  Records records;
  records.terminal_ = !isRelayed && isatty(STDOUT_FILENO) != 0;
  if (!options.log.empty()) {
    Result<EventLog> log = EventLog::open(options.log, warn);
    if (!log.ok())
      return log.status();
    records.log_.emplace(std::move(*log));
  }
  if (!options.tensorboard.empty()) {
    Result<TensorBoardLog> log =
        TensorBoardLog::open(options.tensorboard, warn);
    if (!log.ok())
      return log.status();
    records.tensorBoard_.emplace(std::move(*log));
  }
  return records;
}

Records Records::silent() {
  Records records;
  records.silent_ = true;
  return records;
}

/// Writes progress output to stdout. If the run has to stop while stdout
/// blocks, drops the output.
void Records::show(const std::string &text) {
  if (silent_)
    return;
  std::string all = (barDrawn_ ? "\r\x1b[K" : "") + text;
  barDrawn_ = false;
  if (all.empty() || !waitForWriting(STDOUT_FILENO))
    return;
  std::fwrite(all.data(), 1, all.size(), stdout);
  std::fflush(stdout);
}

void Records::say(const std::string &line) { show(line + "\n"); }

Status Records::start(const LogLine &line, int64_t totalSteps,
                      std::optional<int64_t> resumedStep) {
  totalSteps_ = totalSteps;
  if (!log_)
    return Status();
  Status status = log_->begin(resumedStep);
  if (status.ok())
    log_->write(line);
  return status;
}

Status Records::outcome() const {
  Status status = log_ ? log_->outcome() : Status();
  return status.ok() && tensorBoard_ ? tensorBoard_->outcome() : status;
}

void Records::end(const LogLine &line) {
  show("");
  if (log_)
    log_->write(line);
}

void Records::drawBar(const StepRecord &record) {
  auto now = std::chrono::steady_clock::now();
  bool last = record.step >= totalSteps_;
  // Redraw the bar at most ten times per second.
  if (barDrawn_ && !last && now - lastBar_ < std::chrono::milliseconds(100))
    return;
  lastBar_ = now;
  constexpr int width = 24;
  int64_t total = std::max<int64_t>(totalSteps_, 1);
  int filled = int(std::min(record.step, total) * width / total);
  std::string bar = std::string(size_t(filled), '=') +
                    std::string(size_t(width - filled), ' ');
  int64_t seconds = int64_t(double(std::max<int64_t>(total - record.step, 0)) *
                            averageMilliseconds_ / 1e3);
  std::string skipped =
      record.skippedSteps == 0
          ? ""
          : std::to_string(record.skippedSteps) + " skipped  ";
  char text[256];
  std::snprintf(text, sizeof(text),
                "\r\x1b[K[%s] %lld/%lld  loss %.4f  %s%.0f tok/s  ETA "
                "%lld:%02lld:%02lld%s",
                bar.c_str(), (long long)record.step, (long long)totalSteps_,
                record.loss, skipped.c_str(), record.tokensPerSecond,
                (long long)(seconds / 3600), (long long)(seconds / 60 % 60),
                (long long)(seconds % 60), last ? "\n" : "");
  show(text);
  // The bar of the last step ends with a line break and is not cleared.
  barDrawn_ = !last;
}

void Records::step(const StepRecord &record) {
  averageMilliseconds_ =
      averageMilliseconds_ == 0
          ? record.milliseconds
          : 0.95 * averageMilliseconds_ + 0.05 * record.milliseconds;
  if (log_) {
    LogLine line;
    line.integer("step", record.step).real("loss", record.loss);
    line.real("lr", record.rate);
    if (record.gradNorm)
      line.real("grad_norm", *record.gradNorm);
    if (record.lossScale)
      line.real("loss_scale", *record.lossScale);
    if (record.skipped)
      line.boolean("skipped", true);
    line.real("tokens_per_second", record.tokensPerSecond)
        .real("step_ms", record.milliseconds);
    if (record.copyWaitMilliseconds)
      line.real("copy_wait_ms", *record.copyWaitMilliseconds);
    if (record.sumWaitMilliseconds)
      line.real("sum_wait_ms", *record.sumWaitMilliseconds);
    log_->write(line);
  }
  if (tensorBoard_) {
    tensorBoard_->scalar("train/loss", record.step, record.loss);
    tensorBoard_->scalar("train/learning_rate", record.step, record.rate);
    if (record.gradNorm)
      tensorBoard_->scalar("train/grad_norm", record.step, *record.gradNorm);
    if (record.lossScale)
      tensorBoard_->scalar("train/loss_scale", record.step, *record.lossScale);
    tensorBoard_->scalar("perf/tokens_per_second", record.step,
                         record.tokensPerSecond);
  }
  if (terminal_)
    return drawBar(record);
  char gradNorm[32] = "";
  if (record.gradNorm && !record.skipped)
    std::snprintf(gradNorm, sizeof(gradNorm), "  grad norm %.4f",
                  *record.gradNorm);
  char note[80] = "";
  if (record.skipped)
    std::snprintf(note, sizeof(note),
                  "  skipped: overflow with loss scale %.0f",
                  record.lossScale.value_or(1));
  char text[320];
  std::snprintf(text, sizeof(text),
                "step %lld/%lld  loss %.6f%s  lr %.3e  %.1f ms  %.0f tok/s%s\n",
                (long long)record.step, (long long)totalSteps_, record.loss,
                gradNorm, record.rate, record.milliseconds,
                record.tokensPerSecond, note);
  show(text);
}

void Records::evaluation(int64_t step, double loss, int64_t targets) {
  if (log_)
    log_->write(LogLine()
                    .text("event", "eval")
                    .integer("step", step)
                    .real("loss", loss)
                    .integer("targets", targets));
  if (tensorBoard_)
    tensorBoard_->scalar("eval/loss", step, loss);
  char text[96];
  std::snprintf(text, sizeof(text), "validation after step %lld  loss %.6f",
                (long long)step, loss);
  say(text);
}

void Records::average(int64_t step, double milliseconds) {
  if (log_)
    log_->write(LogLine()
                    .text("event", "average")
                    .integer("step", step)
                    .real("average_ms", milliseconds));
}

} // namespace kiln::runtime
