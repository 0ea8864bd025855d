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

StateLimits makeLimits(int64_t budget, bool offloadsActivations = false) {
  PlanMemoryOptions request;
  request.budget = budget;
  request.hostBudget = 1000;
  request.offloadActivations = offloadsActivations;
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

/// Reduces the capacity after an arena exceeded the budget by `excess`.
void reduceCapacity(StateLimits &limits, int64_t excess) {
  limits.reduce(excess, /*hostExcess=*/0, /*delaysCopies=*/false);
}

} // namespace

TEST(StateLimits, DelaysCopiesBeforeItReducesTheCapacity) {
  StateLimits limits = makeLimits(5120);
  limits.reduce(/*excess=*/100, /*hostExcess=*/0, /*delaysCopies=*/true);
  EXPECT_EQ(problemOf(limits).reserve, 150 + 10);
  EXPECT_EQ(capacityOf(limits), 5120);
  EXPECT_FALSE(limits.interpolate(/*slack=*/20))
      << "the capacity is the budget";
  limits.reduce(100, 0, true);
  EXPECT_EQ(capacityOf(limits), 5120 - 100 - 10);
  limits.reduce(100, 0, true);
  EXPECT_EQ(capacityOf(limits), 5010 - 150 - 9);
  EXPECT_EQ(problemOf(limits).reserve, 160);
}

TEST(StateLimits, ALargeExcessReducesTheCapacity) {
  StateLimits limits = makeLimits(5120);
  limits.reduce(/*excess=*/321, /*hostExcess=*/0, /*delaysCopies=*/true);
  EXPECT_EQ(problemOf(limits).reserve, 0);
  EXPECT_EQ(capacityOf(limits), 5120 - 321 - 10);
}

TEST(StateLimits, InterpolatesBetweenAnArenaThatFitsAndOneThatDoesNot) {
  StateLimits limits = makeLimits(5120);
  reduceCapacity(limits, 100);
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

  // If 5012 fits, with 10 bytes less than the budget, the next capacity is a
  // quarter of the way from 5012 to 5020.
  std::optional<StateLimits> next = larger->interpolate(10);
  ASSERT_TRUE(next);
  EXPECT_EQ(capacityOf(*next), 5014);
  EXPECT_FALSE(larger->interpolate(1)) << "less than 1 / 2048 of the capacity";

  // A further excess reduces the interpolated capacity.
  reduceCapacity(*larger, 12);
  EXPECT_LT(capacityOf(*larger), 5000);

  // With an excess on the host only, there is no such point.
  limits.exceedsWith(*next, /*excess=*/-5);
  EXPECT_FALSE(limits.interpolate(10));
}

TEST(StateLimits, ExcessOnTheHostDoesNotReduceTheDevice) {
  StateLimits limits = makeLimits(5120);
  limits.reduce(/*excess=*/-100, /*hostExcess=*/50, /*delaysCopies=*/true);
  EXPECT_EQ(capacityOf(limits), 5120);
  EXPECT_EQ(problemOf(limits).reserve, 0);
  EXPECT_EQ(problemOf(limits).hostCapacity, 950);
  EXPECT_FALSE(limits.interpolate(100));
}

TEST(StateLimits, RelaxesByOffloadingActivationsFirst) {
  StateLimits limits = makeLimits(5120, /*offloadsActivations=*/true);
  reduceCapacity(limits, 100);
  ASSERT_TRUE(limits.relax());
  EXPECT_TRUE(limits.offloads());
  EXPECT_EQ(capacityOf(limits), 5010);
  ASSERT_TRUE(limits.relax());
  EXPECT_TRUE(limits.offloads());
  EXPECT_EQ(capacityOf(limits), 5010);
  // Then half of the reduction is undone.
  ASSERT_TRUE(limits.relax());
  EXPECT_FALSE(limits.offloads());
  EXPECT_EQ(capacityOf(limits), 5010 + 55);
  EXPECT_FALSE(limits.interpolate(10)) << "the excess of the first arena does "
                                          "not belong to this capacity";
}

TEST(StateLimits, OffloadsValuesThatAreNeededSoonOnlyIfNothingElseSuffices) {
  // Between commands 0 and 4, 6 s pass, and the copies of the first value take
  // 4 s. Between commands 1 and 3, 2 s pass, and the copies of the second value
  // take 4 s.
  OffloadModel model;
  StateProblem &problem = model.states.emplace().problem;
  problem.seconds = {2, 2, 2, 2, 2};
  problem.live = {40, 40, 40, 40, 40};
  problem.outSecondsPerByte = problem.inSecondsPerByte = 0.1;
  model.problem.items = {{20, 0, 0, 4}, {20, 1, 1, 3}};
  StateLimits limits = makeLimits(100, /*offloadsActivations=*/true);
  EXPECT_EQ(limits.problemOf(model).live, problem.live);
  ASSERT_TRUE(limits.relax());
  EXPECT_EQ(limits.problemOf(model).live,
            (std::vector<int64_t>{40, 20, 20, 20, 40}));
  ASSERT_TRUE(limits.relax());
  EXPECT_EQ(limits.problemOf(model).live,
            (std::vector<int64_t>{40, 20, 0, 20, 40}));
  EXPECT_FALSE(limits.relax());
}

TEST(StateLimits, CannotRelaxLimitsThatWereNotReduced) {
  StateLimits limits = makeLimits(5120);
  EXPECT_FALSE(limits.relax());
}
