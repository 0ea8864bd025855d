//===- ArenaSearchTest.cpp - Decisions of the exact search ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the exact search alone, without the greedy heuristic, for every capacity
// around the optimum of small problems.
//
//===----------------------------------------------------------------------===//

#include "ArenaSearch.h"
#include "ArenaTestUtils.h"

#include "gtest/gtest.h"

using namespace kiln;
using namespace kiln::arena;

/// Searches the problems into which reduce() splits `buffers`, one after
/// another. Returns the first outcome that is not Fits. If all problems fit,
/// stores the offsets of the buffers in `plan` and returns Fits.
static ArenaSearch::Outcome decide(const Buffers &buffers, int64_t capacity,
                                   ArenaPlan &plan) {
  int64_t unit = 1;
  plan.offsets.assign(buffers.size(), 0);
  plan.height = 0;
  for (const Problem &problem : reduce(buffers, unit)) {
    Effort effort(1'000'000'000);
    ArenaSearch search(problem);
    ArenaSearch::Outcome outcome = search.fit(capacity / unit, effort);
    if (outcome != ArenaSearch::Outcome::Fits)
      return outcome;
    const Placement &placement = search.placement();
    plan.height = std::max(plan.height, placement.height * unit);
    plan.maxLive = std::max(plan.maxLive, problem.maxLoad() * unit);
    for (size_t i = 0; i < placement.offsets.size(); ++i)
      plan.offsets[problem.source[i]] = placement.offsets[i] * unit;
  }
  return ArenaSearch::Outcome::Fits;
}

TEST(ArenaSearch, DecidesEveryCapacityAroundTheOptimum) {
  std::mt19937 random(8);
  int refutedAtLoad = 0;
  for (int trial = 0; trial < 3000; ++trial) {
    Buffers buffers = randomBuffers(random, 4 + trial % 4, 3 + trial % 13,
                                    3 + trial % 5, trial % 3);
    int64_t optimum = bruteForceHeight(buffers);
    for (int64_t capacity = optimum - 3; capacity <= optimum + 3; ++capacity) {
      ArenaPlan plan;
      ArenaSearch::Outcome outcome = decide(buffers, capacity, plan);
      if (capacity < optimum) {
        EXPECT_EQ(outcome, ArenaSearch::Outcome::Infeasible)
            << "trial " << trial << ", capacity " << capacity;
        refutedAtLoad += capacity >= assignOffsets(buffers).maxLive;
        continue;
      }
      ASSERT_EQ(outcome, ArenaSearch::Outcome::Fits)
          << "trial " << trial << ", capacity " << capacity;
      EXPECT_LE(plan.height, capacity);
      EXPECT_EQ(verifyArena(buffers, plan), std::nullopt);
    }
  }
  // At some capacities, no plan exists although the bytes that are live at the
  // same time never exceed the capacity.
  EXPECT_GT(refutedAtLoad, 20);
}

TEST(ArenaSearch, SpentEffortMeansUnknown) {
  std::mt19937 random(9);
  Buffers buffers = randomBuffers(random, 200, 1000, 60, false);
  int64_t unit = 1;
  std::vector<Problem> problems = reduce(buffers, unit);
  ASSERT_EQ(problems.size(), 1u);
  Effort effort(100);
  ArenaSearch search(problems.front());
  EXPECT_EQ(search.fit(problems.front().maxLoad(), effort),
            ArenaSearch::Outcome::Unknown);
}
