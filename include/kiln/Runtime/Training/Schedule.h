//===- Schedule.h - Learning rate schedules ---------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the learning rate as a closed-form function of the step index, so a
// resumed run uses exactly the rates of an uninterrupted run.
//
// Notation: s = step index, counted from 0; W = warmup steps; N = total steps;
// C = cooldown steps; P = scaled peak rate; m = minimum rate.
//
//   s < W    gradual:  P * (s + 1) / W        constant:  the unscaled rate
//   s >= W, where t = (s - W) / (N - W):
//   constant      P
//   linear        m + (P - m) * (1 - t)
//   cosine        m + (P - m) * (1 + cos(pi * t)) / 2
//   wsd           P while s < N - C, then m + (P - m) * (N - s) / C
//   exponential   max(m, P * gamma^(s - W))
//
// The schedules linear, cosine and wsd reach the minimum rate m at step N, but
// the last step is step N - 1. The rate of the last step is therefore positive
// even if m = 0. It is m + (P - m) / (N - W) for linear and m + (P - m) / C for
// wsd.
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

/// Return the value names of --lr-schedule, --warmup and --lr-scaling, with the
/// enumerators that they select.
const std::map<std::string, ScheduleKind> &scheduleKinds();
const std::map<std::string, WarmupKind> &warmupKinds();
const std::map<std::string, RateScaling> &rateScalings();

/// Returns the key that `names` maps to `value`, or "" if there is none.
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
  int64_t cooldownSteps = 0; ///< Number of decay steps; used by wsd only.
  double gamma = 1.0;        ///< Factor per step; used by exponential only.
  RateScaling scaling = RateScaling::None;
  int64_t baseBatch = 0; ///< Global batch size for which `rate` was tuned.
};

class Schedule {
public:
  /// `totalSteps` is --steps. `batch` is the number of sequences in a global
  /// batch. With scaling, the peak rate is rate * batch / baseBatch (linear) or
  /// rate * sqrt(batch / baseBatch) (sqrt).
  Schedule(const ScheduleOptions &options, int64_t totalSteps, int64_t batch);

  double rate(int64_t step) const;
  double peak() const { return peak_; }

private:
  ScheduleOptions options_;
  int64_t totalSteps_;
  double peak_;
};

} // namespace kiln::runtime

#endif // KILN_RUNTIME_TRAINING_SCHEDULE_H
