//===- Schedule.cpp - Learning rate schedules -----------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Training/Schedule.h"

#include <algorithm>
#include <cmath>

namespace kiln::runtime {

const std::map<std::string, ScheduleKind> &scheduleKinds() {
  static const std::map<std::string, ScheduleKind> kinds = {
      {"constant", ScheduleKind::Constant},
      {"linear", ScheduleKind::Linear},
      {"cosine", ScheduleKind::Cosine},
      {"wsd", ScheduleKind::Wsd},
      {"exponential", ScheduleKind::Exponential}};
  return kinds;
}

const std::map<std::string, WarmupKind> &warmupKinds() {
  static const std::map<std::string, WarmupKind> kinds = {
      {"gradual", WarmupKind::Gradual}, {"constant", WarmupKind::Constant}};
  return kinds;
}

const std::map<std::string, RateScaling> &rateScalings() {
  static const std::map<std::string, RateScaling> scalings = {
      {"none", RateScaling::None},
      {"linear", RateScaling::Linear},
      {"sqrt", RateScaling::Sqrt}};
  return scalings;
}

static double scaleFactor(const ScheduleOptions &options, int64_t batch) {
  double ratio =
      double(batch) / double(std::max<int64_t>(options.baseBatch, 1));
  switch (options.scaling) {
  case RateScaling::None:
    return 1.0;
  case RateScaling::Linear:
    return ratio;
  case RateScaling::Sqrt:
    return std::sqrt(ratio);
  }
  return 1.0;
}

Schedule::Schedule(const ScheduleOptions &options, int64_t totalSteps,
                   int64_t batch)
    : options_(options), totalSteps_(totalSteps),
      peak_(options.rate * scaleFactor(options, batch)) {}

double Schedule::rate(int64_t step) const {
  int64_t warmup = options_.warmupSteps;
  if (step < warmup)
    return options_.warmup == WarmupKind::Constant
               ? options_.rate
               : peak_ * double(step + 1) / double(warmup);

  double range = peak_ - options_.minRate;
  int64_t decaySteps = std::max<int64_t>(totalSteps_ - warmup, 1);
  double done = double(step - warmup) / double(decaySteps);
  switch (options_.kind) {
  case ScheduleKind::Constant:
    return peak_;
  case ScheduleKind::Linear:
    return options_.minRate + range * (1.0 - done);
  case ScheduleKind::Cosine:
    return options_.minRate + range * 0.5 * (1.0 + std::cos(M_PI * done));
  case ScheduleKind::Wsd: {
    int64_t left = totalSteps_ - step;
    if (left >= options_.cooldownSteps)
      return peak_;
    return options_.minRate +
           range * double(left) / double(options_.cooldownSteps);
  }
  case ScheduleKind::Exponential:
    return std::max(options_.minRate,
                    peak_ * std::pow(options_.gamma, double(step - warmup)));
  }
  return peak_;
}

} // namespace kiln::runtime
