//===- RateFlags.cpp - Validation of learning rate flags ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RateFlags.h"

#include "TrainingInfo.h"

#include <cmath>

namespace kiln::runtime {

static Status usage(const std::string &message) {
  return Status(ExitCode::Usage, message + " (see --help)");
}

Status checkRates(const ScheduleOptions &schedule, double gradClip,
                  int64_t steps, const std::set<std::string> &given) {
  auto has = [&](const char *flag) { return given.count(flag) > 0; };
  auto needs = [&](const char *flag, const char *other, bool present) {
    return has(flag) && !present ? usage(std::string(flag) + " needs " + other)
                                 : Status();
  };
  auto isRate = [](double value) { return std::isfinite(value) && value >= 0; };
  if (!isRate(schedule.rate) || !isRate(schedule.minRate))
    return usage("--lr and --min-lr must be finite and not negative");
  if (schedule.minRate > schedule.rate)
    return usage(
        "--min-lr is above --lr: the rate decays from --lr to --min-lr");
  if (!isRate(gradClip))
    return usage("--grad-clip must be finite and not negative");
  if (has("--lr-gamma") && !(schedule.gamma > 0 && schedule.gamma <= 1))
    return usage("--lr-gamma must be above 0 and at most 1");
  bool wsd = schedule.kind == ScheduleKind::Wsd;
  bool exponential = schedule.kind == ScheduleKind::Exponential;
  bool decays = schedule.kind != ScheduleKind::Constant;
  bool scales = schedule.scaling != RateScaling::None;
  for (Status status :
       {needs("--min-lr", "an --lr-schedule that decays", decays),
        needs("--cooldown-steps", "--lr-schedule=wsd", wsd),
        needs("--lr-gamma", "--lr-schedule=exponential", exponential),
        needs("--warmup", "--warmup-steps=N", has("--warmup-steps")),
        needs("--lr-scaling", "--base-batch=N", has("--base-batch") || !scales),
        needs("--base-batch", "--lr-scaling=linear|sqrt", scales)})
    if (!status.ok())
      return status;
  if (wsd && !has("--cooldown-steps"))
    return usage("--lr-schedule=wsd needs --cooldown-steps=N");
  if (exponential && !has("--lr-gamma"))
    return usage("--lr-schedule=exponential needs --lr-gamma=X");
  if (schedule.warmup == WarmupKind::Constant && !scales)
    return usage("--warmup=constant needs --lr-scaling: without scaling, the "
                 "warmup would use the same --lr as later steps");
  if (wsd && (schedule.warmupSteps > steps ||
              schedule.cooldownSteps > steps - schedule.warmupSteps))
    return usage(
        "the sum of --warmup-steps and --cooldown-steps is more than --steps");
  return Status();
}

Status checkPeakRate(const ScheduleOptions &schedule, int64_t batch) {
  double peak = Schedule(schedule, /*totalSteps=*/1, batch).peak();
  // Scaling rounds, so that equal rates may differ in the last bit.
  if (schedule.minRate <= peak * (1 + 1e-12))
    return Status();
  return usage("--min-lr=" + numberText(schedule.minRate) +
               " is above the peak rate " + numberText(peak) +
               ", which is --lr scaled to a batch of " + std::to_string(batch) +
               ": the rate decays from the peak to --min-lr");
}

} // namespace kiln::runtime
