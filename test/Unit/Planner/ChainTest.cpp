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
      options.minSlots = options.maxSlots;
      auto plan = planAndCheck(chain, 1000 + s + 1, options);
      ASSERT_TRUE(plan);
      EXPECT_EQ(plan->time, revolve(l, s)) << l << " steps, " << s;
    }
  }
}

TEST(Chain, RandomChainsAgainstExhaustiveSearch) {
  std::mt19937 random(7);
  int pairs = 0, feasible = 0, worse = 0, persistentWorse = 0, missed = 0;
  double gap = 0, persistentGap = 0, worst = 0;
  while (pairs < 1500) {
    int stages = 4 + random() % 3, menu = 1 + random() % 3;
    Chain chain = randomChain(random, stages, menu);
    int64_t low = smallestFeasibleBudget(chain).bytes - 1;
    int64_t high = saveAll(chain).peak;
    for (int i = 0; i < 6; ++i, ++pairs) {
      int64_t budget = low + (high - low) * i / 6;
      auto plan = planAndCheck(chain, budget);
      auto best = exhaustiveTime(chain, budget);
      EXPECT_EQ(plan.has_value(), budget > low);
      missed += best && !plan;
      EXPECT_TRUE(best || !plan);
      if (!best || !plan)
        continue;
      ++feasible;
      EXPECT_GE(plan->time, *best);
      gap += plan->time / *best - 1;
      worst = std::max(worst, plan->time / *best - 1);
      persistentGap += plan->persistentTime / *best - 1;
      worse += plan->time > *best;
      persistentWorse += plan->persistentTime > *best;
    }
  }
  std::cout << feasible << " feasible pairs of " << pairs << ", " << missed
            << " feasible only without persistence; mean gap to the optimum: "
            << "persistent " << 100 * persistentGap / feasible << " % ("
            << persistentWorse << " pairs), with moves " << 100 * gap / feasible
            << " % (" << worse << " pairs), worst " << 100 * worst << " %\n";
}
