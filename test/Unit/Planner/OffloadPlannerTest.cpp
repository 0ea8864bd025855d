//===- OffloadPlannerTest.cpp - Selection and timing of offloads ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Plans are checked by a simulator that shares no code with the planner. The
// simulator runs the commands one by one. There is one link to the host and one
// to the device, and each executes its copies in the order in which they begin.
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/OffloadPlanner.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <map>
#include <random>

using namespace kiln;

namespace {

struct Simulated {
  double seconds = 0;
  int64_t peak = 0;
};

/// Runs the commands and checks that the position of every copy is valid.
Simulated simulate(const OffloadProblem &problem,
                   const OffloadSolution &solution) {
  Simulated result;
  double outFree = 0, inFree = 0;
  std::map<int32_t, double> outDone, inDone;
  auto count = static_cast<int32_t>(problem.seconds.size());
  for (int32_t c = 0; c < count; ++c) {
    int64_t live = problem.live[c];
    for (const OffloadedItem &offloaded : solution.offloaded) {
      if (offloaded.wait == c)
        result.seconds = std::max(result.seconds, outDone.at(offloaded.item));
    }
    // Copies that begin at the same command are executed in the order in which
    // their results are needed.
    std::vector<OffloadedItem> beginning;
    for (const OffloadedItem &offloaded : solution.offloaded)
      if (offloaded.begin == c)
        beginning.push_back(offloaded);
    auto key = [&](const OffloadedItem &offloaded) {
      return std::pair(problem.items[offloaded.item].back, offloaded.item);
    };
    std::sort(beginning.begin(), beginning.end(),
              [&](const OffloadedItem &a, const OffloadedItem &b) {
                return key(a) < key(b);
              });
    for (const OffloadedItem &offloaded : beginning) {
      inFree = std::max(inFree, result.seconds) +
               problem.inSecondsPerByte *
                   double(problem.items[offloaded.item].bytes);
      inDone[offloaded.item] = inFree;
    }
    for (const OffloadedItem &offloaded : solution.offloaded) {
      const OffloadItem &item = problem.items[offloaded.item];
      if (item.back == c)
        result.seconds = std::max(result.seconds, inDone.at(offloaded.item));
      if (offloaded.wait <= c && c < offloaded.begin)
        live -= item.bytes;
    }
    result.peak = std::max(result.peak, live);
    result.seconds += problem.seconds[c];
    for (const OffloadedItem &offloaded : solution.offloaded) {
      const OffloadItem &item = problem.items[offloaded.item];
      if (item.made == c) {
        outFree = std::max(outFree, result.seconds) +
                  problem.outSecondsPerByte * double(item.bytes);
        outDone[offloaded.item] = outFree;
      }
    }
  }
  return result;
}

/// Generates a training step whose backward pass uses the values of the forward
/// pass in reverse order.
OffloadProblem makeTrainingStep(std::mt19937_64 &random, int32_t values) {
  auto draw = [&](int64_t low, int64_t high) {
    return std::uniform_int_distribution<int64_t>(low, high)(random);
  };
  OffloadProblem problem;
  int32_t commands = 6 * values;
  for (int32_t c = 0; c < commands; ++c)
    problem.seconds.push_back(1e-3 * double(draw(1, 20)));
  problem.live.assign(commands, 1000);
  for (int32_t v = 0; v < values; ++v) {
    OffloadItem item;
    item.bytes = 64 * draw(1, 100);
    item.made = 2 * v;
    item.left = static_cast<int32_t>(item.made + draw(0, 2));
    item.back = commands - 1 - 4 * v - static_cast<int32_t>(draw(0, 2));
    for (int32_t c = item.made; c <= item.back; ++c)
      problem.live[c] += item.bytes;
    problem.items.push_back(item);
  }
  double perByte = 1e-6 * double(draw(1, 60));
  problem.outSecondsPerByte = problem.inSecondsPerByte = perByte;
  int64_t most = *std::max_element(problem.live.begin(), problem.live.end());
  problem.capacity = most * draw(35, 105) / 100;
  return problem;
}

void expectPossible(const OffloadProblem &problem,
                    const OffloadSolution &solution) {
  for (const OffloadedItem &offloaded : solution.offloaded) {
    const OffloadItem &item = problem.items[offloaded.item];
    EXPECT_LT(item.left, offloaded.wait);
    EXPECT_LT(offloaded.wait, offloaded.begin);
    EXPECT_LE(offloaded.begin, item.back);
  }
}

TEST(OffloadPlanner, LeavesAloneWhatFits) {
  OffloadProblem problem;
  problem.seconds = {1, 1, 1, 1};
  problem.live = {10, 20, 20, 10};
  problem.items = {{10, 0, 0, 3}};
  problem.capacity = 20;
  OffloadSolution solution = planOffload(problem);
  EXPECT_TRUE(solution.fits());
  EXPECT_TRUE(solution.offloaded.empty());
  EXPECT_EQ(solution.seconds, 4);
}

TEST(OffloadPlanner, HidesCopiesBehindCommands) {
  OffloadProblem problem;
  problem.seconds = {1, 1, 1, 1, 1, 1, 1, 1};
  problem.live = {64, 64, 64, 128, 128, 64, 64, 64};
  problem.items = {{64, 0, 0, 7}};
  problem.outSecondsPerByte = problem.inSecondsPerByte = 1.5 / 64;
  problem.capacity = 64;
  OffloadSolution solution = planOffload(problem);
  ASSERT_EQ(solution.offloaded.size(), 1u);
  EXPECT_TRUE(solution.fits());
  // Each copy takes 1.5 s. The copy to the host begins after command 0 and is
  // complete before command 3. The copy back begins with command 5 and is
  // complete before command 7.
  EXPECT_EQ(solution.offloaded[0].wait, 3);
  EXPECT_EQ(solution.offloaded[0].begin, 5);
  EXPECT_DOUBLE_EQ(solution.seconds, 8);
}

TEST(OffloadPlanner, WaitsForASlowLinkWhenMemoryIsShort) {
  OffloadProblem problem;
  problem.seconds = {1, 1, 1, 1};
  problem.live = {64, 128, 128, 64};
  problem.items = {{64, 0, 0, 3}};
  problem.outSecondsPerByte = problem.inSecondsPerByte = 3.0 / 64;
  problem.capacity = 64;
  OffloadSolution solution = planOffload(problem);
  EXPECT_TRUE(solution.fits());
  EXPECT_DOUBLE_EQ(solution.seconds, 4 + 3 + 3);
}

TEST(OffloadPlanner, SaysWhatDoesNotFit) {
  OffloadProblem problem;
  problem.seconds = {1, 1, 1, 1};
  problem.live = {64, 128, 128, 64};
  problem.items = {{64, 0, 0, 3}};
  problem.capacity = 50;
  EXPECT_EQ(planOffload(problem).excess, 14);
}

TEST(OffloadPlanner, KeepsTheHostsLimit) {
  OffloadProblem problem;
  problem.seconds = {1, 1, 1, 1, 1, 1};
  problem.live = {64, 128, 192, 192, 128, 64};
  problem.items = {{64, 0, 0, 5}, {64, 1, 1, 4}};
  problem.capacity = 64;
  problem.hostCapacity = 64;
  OffloadSolution solution = planOffload(problem);
  EXPECT_EQ(solution.offloaded.size(), 1u);
  EXPECT_EQ(solution.excess, 64);
}

/// Verifies that plans can be executed, that they exceed the capacity by
/// exactly the predicted number of bytes (0 if they fit), and that they take at
/// most the predicted time.
TEST(OffloadPlanner, RandomPlansHoldWhatTheyPromise) {
  std::mt19937_64 random(20261121);
  int fitting = 0;
  for (int round = 0; round < 2000; ++round) {
    OffloadProblem problem = makeTrainingStep(random, 2 + round % 9);
    OffloadSolution solution = planOffload(problem);
    expectPossible(problem, solution);
    Simulated simulated = simulate(problem, solution);
    EXPECT_EQ(std::max<int64_t>(0, simulated.peak - problem.capacity),
              solution.excess)
        << round;
    EXPECT_LE(simulated.seconds, solution.seconds * (1 + 1e-9)) << round;
    fitting += solution.fits();
  }
  EXPECT_GT(fitting, 1000);
}

/// Verifies that the set of values that the planner offloads is close to the
/// best set: on average, the plan takes less than 1 % longer than the fastest
/// plan over all sets.
TEST(OffloadPlanner, IsCloseToTheBestSet) {
  std::mt19937_64 random(7);
  double sum = 0;
  int compared = 0, missed = 0;
  for (int round = 0; round < 300; ++round) {
    OffloadProblem problem = makeTrainingStep(random, 3 + round % 6);
    double best = std::numeric_limits<double>::infinity();
    for (uint32_t set = 0; set < 1u << problem.items.size(); ++set) {
      std::vector<int32_t> items;
      for (size_t i = 0; i < problem.items.size(); ++i)
        if (set >> i & 1)
          items.push_back(static_cast<int32_t>(i));
      OffloadSolution solution = placeOffload(problem, items);
      if (solution.fits())
        best = std::min(best, solution.seconds);
    }
    OffloadSolution greedy = planOffload(problem);
    if (best == std::numeric_limits<double>::infinity()) {
      EXPECT_FALSE(greedy.fits());
      continue;
    }
    missed += !greedy.fits();
    if (!greedy.fits())
      continue;
    ++compared;
    sum += greedy.seconds / best - 1;
  }
  ASSERT_GT(compared, 100);
  EXPECT_EQ(missed, 0);
  EXPECT_LT(sum / compared, 0.01);
}

} // namespace
