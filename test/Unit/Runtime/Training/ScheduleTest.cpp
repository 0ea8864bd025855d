//===- ScheduleTest.cpp - Tests of learning rate schedules ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Training/Schedule.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace kiln::runtime;
using namespace kiln;

namespace {

ScheduleOptions options(ScheduleKind kind) {
  ScheduleOptions options;
  options.rate = 0.1;
  options.minRate = kind == ScheduleKind::Constant ? 0.0 : 0.01;
  options.kind = kind;
  return options;
}

TEST(ScheduleTest, ConstantIsConstant) {
  Schedule schedule(options(ScheduleKind::Constant), 10, 4);
  for (int64_t step = 0; step < 20; ++step)
    EXPECT_EQ(schedule.rate(step), 0.1);
}

TEST(ScheduleTest, GradualWarmupReachesThePeakWithItsLastStep) {
  ScheduleOptions warm = options(ScheduleKind::Constant);
  warm.warmupSteps = 4;
  Schedule schedule(warm, 10, 4);
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0.025);
  EXPECT_DOUBLE_EQ(schedule.rate(1), 0.05);
  EXPECT_DOUBLE_EQ(schedule.rate(3), 0.1);
  EXPECT_EQ(schedule.rate(4), 0.1);
}

TEST(ScheduleTest, ConstantWarmupHoldsTheUnscaledRate) {
  ScheduleOptions warm = options(ScheduleKind::Constant);
  warm.warmupSteps = 3;
  warm.warmup = WarmupKind::Constant;
  warm.scaling = RateScaling::Linear;
  warm.baseBatch = 8;
  Schedule schedule(warm, 10, 32);
  EXPECT_EQ(schedule.rate(0), 0.1);
  EXPECT_EQ(schedule.rate(2), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate(3), 0.4);
}

TEST(ScheduleTest, LinearFallsToTheMinimum) {
  ScheduleOptions decay = options(ScheduleKind::Linear);
  decay.warmupSteps = 2;
  Schedule schedule(decay, 12, 4);
  EXPECT_DOUBLE_EQ(schedule.rate(2), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate(7), 0.01 + 0.09 * 0.5);
  EXPECT_DOUBLE_EQ(schedule.rate(11), 0.01 + 0.09 * 0.1);
}

TEST(ScheduleTest, CosineIsHalfWayInTheMiddle) {
  Schedule schedule(options(ScheduleKind::Cosine), 100, 4);
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate(50), 0.055);
  EXPECT_DOUBLE_EQ(schedule.rate(25), 0.01 + 0.09 * 0.5 * (1 + std::sqrt(0.5)));
  EXPECT_DOUBLE_EQ(schedule.rate(100), 0.01);
}

TEST(ScheduleTest, WsdIsStableUntilTheCooldown) {
  ScheduleOptions wsd = options(ScheduleKind::Wsd);
  wsd.cooldownSteps = 4;
  Schedule schedule(wsd, 20, 4);
  for (int64_t step = 0; step <= 16; ++step)
    EXPECT_EQ(schedule.rate(step), 0.1) << step;
  EXPECT_DOUBLE_EQ(schedule.rate(17), 0.01 + 0.09 * 0.75);
  EXPECT_DOUBLE_EQ(schedule.rate(19), 0.01 + 0.09 * 0.25);
}

TEST(ScheduleTest, ExponentialStopsAtTheMinimum) {
  ScheduleOptions decay = options(ScheduleKind::Exponential);
  decay.gamma = 0.5;
  Schedule schedule(decay, 20, 4);
  EXPECT_DOUBLE_EQ(schedule.rate(0), 0.1);
  EXPECT_DOUBLE_EQ(schedule.rate(2), 0.025);
  EXPECT_DOUBLE_EQ(schedule.rate(9), 0.01);
}

TEST(ScheduleTest, SqrtScalingTakesTheRoot) {
  ScheduleOptions scaled = options(ScheduleKind::Constant);
  scaled.scaling = RateScaling::Sqrt;
  scaled.baseBatch = 8;
  EXPECT_DOUBLE_EQ(Schedule(scaled, 10, 32).rate(0), 0.2);
}

// With N steps, counted from 0, a decay reaches the minimum rate at step N, one
// step after the last step N - 1. See "The rate of the last step" in
// docs/use/user-guide.md.
TEST(ScheduleTest, ADecayReachesItsEndOneStepAfterTheLast) {
  auto rates = [](ScheduleKind kind) {
    ScheduleOptions decay = options(kind);
    decay.warmupSteps = 2;
    decay.cooldownSteps = 5;
    Schedule schedule(decay, 12, 4);
    return std::pair(schedule.rate(11), schedule.rate(12));
  };
  auto [linear, linearEnd] = rates(ScheduleKind::Linear);
  EXPECT_DOUBLE_EQ(linear, 0.01 + 0.09 / 10);
  EXPECT_DOUBLE_EQ(linearEnd, 0.01);
  auto [cosine, cosineEnd] = rates(ScheduleKind::Cosine);
  EXPECT_DOUBLE_EQ(cosine, 0.01 + 0.09 * (1 - std::cos(M_PI / 10)) / 2);
  EXPECT_DOUBLE_EQ(cosineEnd, 0.01);
  auto [wsd, wsdEnd] = rates(ScheduleKind::Wsd);
  EXPECT_DOUBLE_EQ(wsd, 0.01 + 0.09 / 5);
  EXPECT_DOUBLE_EQ(wsdEnd, 0.01);
}

} // namespace
