//===- ChainTest.cpp - Chain plans against oracles --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every plan in these tests is simulated. Optima come from Revolve's closed
// form for chains of equal stages, and from exhaustive search for small random
// chains.
//
//===----------------------------------------------------------------------===//

#include "ChainTestUtils.h"

#include "gtest/gtest.h"

#include <ctime>
#include <iostream>

using namespace kiln;

static void check(const Chain &chain, int64_t budget,
                  const std::optional<ChainPlan> &plan) {
  if (!plan)
    return;
  ChainCost cost = simulate(chain, plan->ops);
  EXPECT_EQ(cost.error, "");
  EXPECT_EQ(cost.time, plan->time);
  EXPECT_EQ(cost.peak, plan->peak);
  EXPECT_EQ(cost.hostPeak, plan->hostPeak);
  EXPECT_LE(plan->peak, budget);
  EXPECT_LE(plan->time, plan->persistentTime);
  EXPECT_LE(plan->bound, plan->time);
  EXPECT_LE(plan->persistentBound, plan->persistentTime);
}

static std::optional<ChainPlan> planAndCheck(const Chain &chain, int64_t budget,
                                             const ChainOptions &options = {}) {
  EXPECT_EQ(verifyChain(chain), "");
  std::optional<ChainPlan> plan = solveChain(chain, budget, options);
  check(chain, budget, plan);
  return plan;
}

/// Returns a random chain with large sizes. The planner counts memory in slots
/// (units of equal size). The sizes are not multiples of the slot size, so that
/// rounding the sizes to slots changes them.
static Chain randomOddChain(std::mt19937 &random, int stages, int options) {
  Chain chain = randomChain(random, stages, options);
  for (Stage &stage : chain.stages) {
    stage.input = stage.input * 1000003 + random() % 1000;
    for (StageOption &option : stage.options)
      option.saved = option.saved * 1000003 + 1000;
  }
  EXPECT_EQ(verifyChain(chain), "");
  return chain;
}

/// Returns the number of forward steps that the checkpointing algorithm Revolve
/// (Griewank and Walther) needs for l steps with s snapshots, one of which is
/// the initial state. Let beta(s, r) = C(s + r, s), and let r be the smallest
/// integer such that beta(s, r) >= l. The number of forward steps is
/// r * l - beta(s + 1, r - 1).
static int64_t revolve(int64_t l, int64_t s) {
  auto beta = [](int64_t s, int64_t r) { // Returns C(s + r, s).
    int64_t product = 1;
    for (int64_t i = 1; i <= s; ++i)
      product = product * (r + i) / i;
    return product;
  };
  int64_t r = 0;
  while (beta(s, r) < l)
    ++r;
  return r * l - (r > 0 ? beta(s + 1, r - 1) : 0);
}

TEST(Chain, UnitChainsAreRevolve) {
  EXPECT_EQ(revolve(10, 3), 15);
  EXPECT_EQ(revolve(96, 6), 264);
  for (int64_t s = 1; s <= 7; ++s) {
    for (int64_t l = 1; l < 60; ++l) {
      // The budget of 1000 + s + 1 bytes suffices for the saved values of one
      // stage, for s snapshots (one is the initial state), and for the current
      // value.
      Chain chain;
      Stage stage;
      stage.input = 1;
      stage.fastForward = 1;
      stage.options = {StageOption()};
      stage.options[0].saved = 1000;
      chain.stages.assign(l, stage);
      ChainOptions options;
      options.persistentOnly = true;
      options.minSlots = options.maxSlots; // Avoids rounding of sizes.
      auto plan = planAndCheck(chain, 1000 + s + 1, options);
      ASSERT_TRUE(plan);
      EXPECT_EQ(plan->time, revolve(l, s)) << l << " steps, " << s;
    }
  }
}

TEST(Chain, RandomChainsAgainstExhaustiveSearch) {
  std::mt19937 random(7);
  int pairs = 0, feasible = 0, slower = 0, persistentSlower = 0, missed = 0;
  double gap = 0, persistentGap = 0, boundGap = 0, ladderGap = 0;
  while (pairs < 1500) {
    int stages = 3 + random() % 4, options = 1 + random() % 3;
    Chain chain = randomChain(random, stages, options);
    int64_t below = smallestFeasibleBudget(chain).bytes - 1;
    int64_t all = saveAll(chain).peak;
    ChainLadder ladder(chain, all);
    for (int i = 0; i < 6; ++i, ++pairs) {
      int64_t budget = below + (all - below) * i / 6;
      auto plan = planAndCheck(chain, budget);
      auto rung = ladder.plan(budget);
      check(chain, budget, rung);
      auto best = exhaustiveTime(chain, budget);
      ASSERT_EQ(plan.has_value(), budget > below);
      ASSERT_EQ(rung.has_value(), budget > below);
      if (!plan) {
        missed += best.has_value();
        continue;
      }
      ASSERT_TRUE(best);
      EXPECT_GE(plan->time, *best);
      EXPECT_LE(plan->bound, *best);
      EXPECT_LE(rung->bound, *best);
      // If plan->slots > 0, the planner found the plan with a table of memory
      // slots. The sizes here are so small that the table does not round them,
      // so the bound is exact.
      if (plan->slots > 0)
        EXPECT_NEAR(plan->persistentBound, plan->persistentTime, 1e-6);
      ++feasible;
      slower += plan->time > *best;
      persistentSlower += plan->persistentTime > *best;
      gap += plan->time / *best - 1;
      ladderGap += rung->time / *best - 1;
      persistentGap += plan->persistentTime / *best - 1;
      boundGap += *best / plan->bound - 1;
    }
  }
  gap /= feasible;
  ladderGap /= feasible;
  persistentGap /= feasible;
  EXPECT_GE(feasible, 1000);
  EXPECT_LE(gap, 0.003);
  EXPECT_LE(ladderGap, 0.003);
  std::cout << feasible
            << " feasible pairs. Slower than the optimum: persistent "
            << 100 * persistentGap << " % (" << persistentSlower
            << " pairs), with moves " << 100 * gap << " % (" << slower
            << " pairs), by ladder " << 100 * ladderGap
            << " %. Feasible only without persistence: " << missed
            << ". Optimum over bound: " << 100 * boundGap / feasible << " %.\n";
}

TEST(Chain, FloorIsExact) {
  std::mt19937 random(3);
  ChainOptions options;
  options.tableEffort = options.moveEffort = 1'000'000;
  for (int trial = 0; trial < 200; ++trial) {
    Chain chain = randomChain(random, 1 + random() % 30, 1 + random() % 4);
    ChainFloor floor = smallestFeasibleBudget(chain);
    EXPECT_FALSE(solveChain(chain, floor.bytes - 1, options));
    auto plan = planAndCheck(chain, floor.bytes, options);
    ASSERT_TRUE(plan);
    EXPECT_EQ(plan->peak, floor.bytes);
  }
}

TEST(ChainLadder, TimeDoesNotIncreaseWithTheBudget) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 12; ++trial) {
    Chain chain = randomOddChain(random, 8 + random() % 12, 1 + random() % 4);
    int64_t high = saveAll(chain).peak;
    ChainOptions options;
    options.maxSlots = 100;
    options.ladderMoveEffort = 300'000;
    ChainLadder ladder(chain, high, options);
    int64_t low = ladder.floor().bytes;
    EXPECT_EQ(low, smallestFeasibleBudget(chain).bytes);
    EXPECT_FALSE(ladder.plan(low - 1));
    double previous = std::numeric_limits<double>::infinity();
    for (int i = 0; i <= 24; ++i) {
      int64_t budget = low + (high - low) * i / 24;
      auto plan = ladder.plan(budget);
      ASSERT_TRUE(plan);
      check(chain, budget, plan);
      EXPECT_LE(plan->time, previous);
      previous = plan->time;
    }
    EXPECT_EQ(previous, saveAll(chain).time);
    EXPECT_TRUE(ladder.plan(2 * high));
  }
}

TEST(ChainLadder, PlansAreThoseOfFullEffort) {
  std::mt19937 random(9);
  double sum = 0, worst = 0;
  int count = 0;
  for (int trial = 0; trial < 5; ++trial) {
    Chain chain = randomOddChain(random, 10 + random() % 20, 4);
    int64_t low = smallestFeasibleBudget(chain).bytes;
    int64_t high = saveAll(chain).peak;
    ChainOptions options;
    options.tableEffort = 200'000'000;
    options.moveEffort = 3'000'000;
    ChainLadder ladder(chain, high, options);
    // The budgets need not be in increasing order.
    for (int i : {8, 1, 12, 4, 2}) {
      int64_t budget = low + (high - low) * i / 17;
      auto alone = planAndCheck(chain, budget, options);
      auto plan = ladder.plan(budget);
      ASSERT_TRUE(alone && plan);
      check(chain, budget, plan);
      EXPECT_LE(plan->bound, alone->time);
      double gap = plan->time / alone->time - 1;
      worst = std::max(worst, gap);
      sum += gap;
      ++count;
    }
  }
  EXPECT_LE(sum / count, 0.003);
  EXPECT_LE(worst, 0.015);
  std::cout << "slower than full effort by " << 100 * sum / count
            << " % on average, " << 100 * worst << " % at worst\n";
}

TEST(ChainLadder, NinetySixLayersInASecond) {
  ChainOptions options;
#ifndef NDEBUG // Limit the planner's effort in debug builds.
  options.ladderEffort = options.ladderMoveEffort = 1'000'000;
#endif
  Chain chain = transformerChain(96, 16);
  // Let the backward workspace grow from the last stage to the first, like the
  // memory of accumulated weight gradients, so that no two stages are equal.
  int64_t pile = 0;
  for (int32_t i = chain.size(); i-- > 0; pile += int64_t(48) << 20)
    for (StageOption &option : chain.stages[i].options)
      option.backwardWorkspace += pile;
  ChainCost all = saveAll(chain);
  std::clock_t start = std::clock();
  ChainLadder ladder(chain, all.peak, options);
  double filling = double(std::clock() - start) / CLOCKS_PER_SEC;
  int64_t low = ladder.floor().bytes;
  double planning = 0;
  for (int percent : {1, 5, 20, 50}) {
    int64_t budget = low + (all.peak - low) / 100 * percent;
    start = std::clock();
    auto plan = ladder.plan(budget);
    planning += double(std::clock() - start) / CLOCKS_PER_SEC;
    ASSERT_TRUE(plan);
    check(chain, budget, plan);
#ifdef NDEBUG
    EXPECT_LE(plan->time, plan->bound * (percent == 1 ? 1.05 : 1.015));
#endif
    std::cout << "budget " << percent
              << " %: " << 100 * (plan->time / plan->bound - 1)
              << " % above the bound\n";
  }
  EXPECT_LT(filling + planning, 15); // Takes less than 1 s on an idle core.
  std::cout << chain.size() << " stages, 16 options: tables " << filling
            << " s, a plan " << planning / 4 << " s of CPU time\n";
}

TEST(Chain, NinetySixLayersInSeconds) {
  ChainOptions options;
#ifndef NDEBUG // Limit the planner's effort in debug builds.
  options.tableEffort = options.moveEffort = 10'000'000;
#endif
  Chain chain = transformerChain(96, 16);
  int64_t low = smallestFeasibleBudget(chain).bytes;
  ChainCost all = saveAll(chain);
  for (int percent : {1, 5, 50}) {
    int64_t budget = low + (all.peak - low) / 100 * percent;
    std::clock_t start = std::clock();
    auto plan = planAndCheck(chain, budget, options);
    double seconds = double(std::clock() - start) / CLOCKS_PER_SEC;
    ASSERT_TRUE(plan);
    EXPECT_LT(seconds, 15); // Takes 2 s on an idle core.
    std::cout << chain.size() << " stages, 16 options, budget " << percent
              << " %: " << 100 * (plan->time / all.time - 1)
              << " % slower than saving all, "
              << 100 * (plan->time / plan->bound - 1) << " % above the bound, "
              << 100 * (plan->persistentTime / plan->persistentBound - 1)
              << " % above the persistent one; " << seconds
              << " s of CPU time\n";
  }
}

TEST(Chain, LossyOptionsNeedPermission) {
  std::mt19937 random(11);
  Chain chain = randomChain(random, 5, 1);
  for (Stage &stage : chain.stages) {
    StageOption lossy = stage.options[0];
    lossy.backward = 0;
    lossy.lossy = true;
    stage.options.push_back(lossy);
  }
  int64_t budget = smallestFeasibleBudget(chain).bytes + 2;
  auto usesLossy = [&](const ChainPlan &plan) {
    for (const ChainOp &op : plan.ops)
      if (op.option == 1)
        return true;
    return false;
  };
  ChainOptions options;
  auto exact = planAndCheck(chain, budget, options);
  options.allowLossy = true;
  auto lossy = planAndCheck(chain, budget, options);
  ASSERT_TRUE(exact && lossy);
  EXPECT_FALSE(usesLossy(*exact));
  EXPECT_TRUE(usesLossy(*lossy));
  EXPECT_LT(lossy->time, exact->time);
}
