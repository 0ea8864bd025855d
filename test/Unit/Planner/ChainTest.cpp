//===- ChainTest.cpp - Plans of chains against oracles ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every plan made here is simulated. Optima come from Revolve's closed form for
// chains of equal stages, and from exhaustive search for small random ones.
//
//===----------------------------------------------------------------------===//

#include "ChainTestUtils.h"

#include "gtest/gtest.h"

#include <ctime>
#include <iostream>

using namespace kiln;

static std::optional<ChainPlan> planAndCheck(const Chain &chain, int64_t budget,
                                             const ChainOptions &options = {}) {
  EXPECT_EQ(verifyChain(chain), "");
  std::optional<ChainPlan> plan = solveChain(chain, budget, options);
  if (!plan)
    return plan;
  ChainCost cost = simulate(chain, plan->ops);
  EXPECT_EQ(cost.error, "");
  EXPECT_EQ(cost.time, plan->time);
  EXPECT_EQ(cost.peak, plan->peak);
  EXPECT_EQ(cost.hostPeak, plan->hostPeak);
  EXPECT_LE(plan->peak, budget);
  EXPECT_LE(plan->time, plan->persistentTime);
  EXPECT_LE(plan->bound, plan->time);
  EXPECT_LE(plan->persistentBound, plan->persistentTime);
  return plan;
}

/// Revolve's forward steps for l steps with s snapshots, the initial state
/// among them: r * l - beta(s + 1, r - 1).
static int64_t revolve(int64_t l, int64_t s) {
  auto beta = [](int64_t s, int64_t r) { // C(s + r, s)
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
      // Only one stage at a time has room to save. a_0 and the value that is
      // worked on lie beside the s - 1 other snapshots.
      Chain chain;
      Stage stage;
      stage.input = 1;
      stage.fastForward = 1;
      stage.options = {StageOption()};
      stage.options[0].saved = 1000;
      chain.stages.assign(l, stage);
      ChainOptions options;
      options.persistentOnly = true;
      options.minSlots = options.maxSlots; // exact
      auto plan = planAndCheck(chain, 1000 + s + 1, options);
      ASSERT_TRUE(plan);
      EXPECT_EQ(plan->time, revolve(l, s)) << l << " steps, " << s;
    }
  }
}

TEST(Chain, RandomChainsAgainstExhaustiveSearch) {
  std::mt19937 random(7);
  int pairs = 0, feasible = 0, slower = 0, persistentSlower = 0, missed = 0;
  double gap = 0, persistentGap = 0, boundGap = 0;
  while (pairs < 1500) {
    int stages = 3 + random() % 4, options = 1 + random() % 3;
    Chain chain = randomChain(random, stages, options);
    int64_t below = smallestFeasibleBudget(chain).bytes - 1;
    int64_t all = saveAll(chain).peak;
    for (int i = 0; i < 6; ++i, ++pairs) {
      int64_t budget = below + (all - below) * i / 6;
      auto plan = planAndCheck(chain, budget);
      auto best = exhaustiveTime(chain, budget);
      ASSERT_EQ(plan.has_value(), budget > below);
      if (!plan) {
        missed += best.has_value();
        continue;
      }
      ASSERT_TRUE(best);
      EXPECT_GE(plan->time, *best);
      EXPECT_LE(plan->bound, *best);
      if (plan->slots > 0) // then sizes were not rounded
        EXPECT_NEAR(plan->persistentBound, plan->persistentTime, 1e-6);
      ++feasible;
      slower += plan->time > *best;
      persistentSlower += plan->persistentTime > *best;
      gap += plan->time / *best - 1;
      persistentGap += plan->persistentTime / *best - 1;
      boundGap += *best / plan->bound - 1;
    }
  }
  gap /= feasible;
  persistentGap /= feasible;
  EXPECT_GE(feasible, 1000);
  EXPECT_LE(gap, 0.003);
  std::cout << feasible
            << " feasible pairs. Slower than the optimum: persistent "
            << 100 * persistentGap << " % (" << persistentSlower
            << " pairs), with moves " << 100 * gap << " % (" << slower
            << " pairs). Feasible only without persistence: " << missed
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

TEST(Chain, TimeDoesNotIncreaseWithTheBudget) {
  std::mt19937 random(5);
  for (int trial = 0; trial < 12; ++trial) {
    // Large odd sizes, so that slots round.
    Chain chain = randomChain(random, 8 + random() % 12, 1 + random() % 4);
    for (Stage &stage : chain.stages) {
      stage.input = stage.input * 1000003 + random() % 1000;
      for (StageOption &option : stage.options)
        option.saved = option.saved * 1000003 + 1000;
    }
    ASSERT_EQ(verifyChain(chain), "");
    int64_t low = smallestFeasibleBudget(chain).bytes;
    int64_t high = saveAll(chain).peak;
    std::vector<int64_t> budgets;
    for (int i = 0; i <= 24; ++i)
      budgets.push_back(low + (high - low) * i / 24);
    ChainOptions options;
    options.maxSlots = 256;
    options.moveEffort = 3'000'000;
    auto plans = solveChainLadder(chain, budgets, options);
    for (size_t i = 0; i < plans.size(); ++i) {
      ASSERT_TRUE(plans[i]);
      ChainCost cost = simulate(chain, plans[i]->ops);
      EXPECT_EQ(cost.error, "");
      EXPECT_EQ(cost.time, plans[i]->time);
      EXPECT_LE(cost.peak, budgets[i]);
      EXPECT_LE(plans[i]->bound, plans[i]->time);
      if (i > 0)
        EXPECT_LE(plans[i]->time, plans[i - 1]->time);
    }
    EXPECT_EQ(plans.back()->time, saveAll(chain).time);
  }
}

TEST(Chain, NinetySixLayersInSeconds) {
  ChainOptions options;
#ifndef NDEBUG // only to see that it works
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
    EXPECT_LT(seconds, 15); // 2 on an idle core
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
