//===- Schedule.h - Learning rate of a step ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The learning rate is a closed-form function of the step index alone, so that
// a resumed run continues with exactly the rates of an uninterrupted one.
//
// A decay reaches m at step N, the step after the last one. The last step, N-1,
// still has the rate that the formula gives there: for linear
// m + (P - m) / (N - W), for wsd m + (P - m) / C. So no step is lost to a rate
// of 0 when m is 0.
//
// Step s counts from 0; W = warmup steps, N = total steps, C = cooldown steps,
// P = the scaled peak rate, m = the smallest rate.
//
//   s < W    gradual:  P * (s + 1) / W          constant:  the unscaled rate
//   then, with t = (s - W) / (N - W), the fraction of the decay that is done:
//   constant      P
//   linear        m + (P - m) * (1 - t)
//   cosine        m + (P - m) * (1 + cos(pi * t)) / 2
//   wsd           P while s < N - C, then m + (P - m) * (N - s) / C
//   exponential   max(m, P * gamma^(s - W))
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_TRAINING_SCHEDULE_H
#define KILN_RUNTIME_TRAINING_SCHEDULE_H

#include <cstdint>
#include <map>
#include <string>

namespace kiln::runtime {

enum class ScheduleKind { Constant, Linear, Cosine, Wsd, Exponential };
enum class WarmupKind { Gradual, Constant };
enum class RateScaling { None, Linear, Sqrt };

/// The names of the values of --lr-schedule, --warmup and --lr-scaling.
const std::map<std::string, ScheduleKind> &scheduleKinds();
const std::map<std::string, WarmupKind> &warmupKinds();
const std::map<std::string, RateScaling> &rateScalings();

/// The name of an enumerator, from one of these maps.
template <typename T>
std::string nameOf(const std::map<std::string, T> &names, T value) {
  for (auto &[name, other] : names)
    if (other == value)
      return name;
  return "";
}

struct ScheduleOptions {
  double rate = 3e-4;
  double minRate = 0.0;
  ScheduleKind kind = ScheduleKind::Constant;
  int64_t warmupSteps = 0;
  WarmupKind warmup = WarmupKind::Gradual;
  int64_t cooldownSteps = 0; ///< wsd only.
  double gamma = 1.0;        ///< exponential only: factor per step.
  RateScaling scaling = RateScaling::None;
  int64_t baseBatch = 0; ///< Batch that `rate` was tuned for.
};

class Schedule {
public:
  /// `totalSteps` is --steps; `batch` the number of sequences in a global
  /// batch: with scaling the peak is rate * batch/baseBatch, or its root.
  Schedule(const ScheduleOptions &options, int64_t totalSteps, int64_t batch);

  double rate(int64_t step) const;

private:
  ScheduleOptions options_;
  int64_t totalSteps_;
  double peak_;
};

} // namespace kiln::runtime

#endif // KILN_RUNTIME_TRAINING_SCHEDULE_H
