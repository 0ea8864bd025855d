//===- StateLimitsTest.cpp - Memory limits for choosing states ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StateLimits.h"

#include "gtest/gtest.h"

using namespace kiln;

namespace {

StateLimits makeLimits(int64_t budget) {
  PlanMemoryOptions request;
  request.budget = budget;
  request.hostBudget = 1000;
  return StateLimits(request);
}

StateProblem problemOf(const StateLimits &limits) {
  OffloadModel model;
  model.states.emplace();
  return limits.problemOf(model);
}

int64_t capacityOf(const StateLimits &limits) {
  return problemOf(limits).capacity;
}

} // namespace

TEST(StateLimits, DelaysCopiesBeforeItReducesTheCapacity) {
  StateLimits limits = makeLimits(5120);
  limits.reduce(/*excess=*/100, /*hostExcess=*/0);
  EXPECT_EQ(problemOf(limits).reserve, 150);
  EXPECT_EQ(capacityOf(limits), 5120);
  limits.reduce(100, 0);
  EXPECT_EQ(capacityOf(limits), 5120 - 100 - 10);
  limits.reduce(100, 0);
  EXPECT_EQ(capacityOf(limits), 5010 - 150 - 9);
  EXPECT_EQ(problemOf(limits).reserve, 150);
}

TEST(StateLimits, InterpolatesBetweenAnArenaThatFitsAndOneThatDoesNot) {
  StateLimits limits = makeLimits(5120);
  limits.reduce(/*excess=*/200, /*hostExcess=*/0);
  EXPECT_FALSE(limits.interpolate(/*slack=*/20))
      << "the capacity is the budget";
  limits.reduce(/*excess=*/100, /*hostExcess=*/0);
  EXPECT_FALSE(limits.interpolate(/*slack=*/0));

  // The capacity 5120 exceeds the budget by 100, and 5010 is 10 below it.
  std::optional<StateLimits> larger = limits.interpolate(/*slack=*/10);
  ASSERT_TRUE(larger);
  EXPECT_EQ(capacityOf(*larger), 5020);

  // 5020 exceeds the budget by 30, so the next capacity is a quarter of the way
  // from 5010 to 5020.
  limits.exceedsWith(*larger, /*excess=*/30);
  larger = limits.interpolate(10);
  ASSERT_TRUE(larger);
  EXPECT_EQ(capacityOf(*larger), 5012);

  // If 5012 fits, with 5 bytes less than the budget, the next capacity is
  // between 5012 and 5020.
  larger = larger->interpolate(5);
  ASSERT_TRUE(larger);
  EXPECT_EQ(capacityOf(*larger), 5013);
}

TEST(StateLimits, ExcessOnTheHostDoesNotReduceTheDevice) {
  StateLimits limits = makeLimits(5120);
  limits.reduce(/*excess=*/-100, /*hostExcess=*/50);
  EXPECT_EQ(capacityOf(limits), 5120);
  EXPECT_EQ(problemOf(limits).reserve, 0);
  EXPECT_EQ(problemOf(limits).hostCapacity, 950);
  EXPECT_FALSE(limits.interpolate(100));
}
