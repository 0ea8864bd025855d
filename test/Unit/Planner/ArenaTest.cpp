//===- ArenaTest.cpp - Arena offsets and their verifier ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every plan in these tests is checked by verifyArena(), which shares no code
// with the planner. verifyArena() itself is tested with plans that are wrong on
// purpose.
//
//===----------------------------------------------------------------------===//

#include "ArenaTestUtils.h"

#include "gtest/gtest.h"

using namespace kiln;

static ArenaPlan planAndVerify(const Buffers &buffers,
                               const ArenaOptions &options = {}) {
  ArenaPlan plan = assignOffsets(buffers, options);
  EXPECT_EQ(verifyArena(buffers, plan), std::nullopt);
  EXPECT_GE(plan.lowerBound, plan.maxLive);
  EXPECT_GE(plan.height, plan.lowerBound);
  EXPECT_EQ(plan.optimal, plan.height == plan.lowerBound);
  return plan;
}

TEST(Arena, SmallRandomInstancesAreOptimal) {
  std::mt19937 random(1);
  int aboveLoad = 0;
  for (int trial = 0; trial < 700; ++trial) {
    Buffers buffers = randomBuffers(random, 2 + trial % 7, 2 + trial % 17,
                                    3 + trial % 8, trial % 2);
    ArenaPlan plan = planAndVerify(buffers);
    EXPECT_TRUE(plan.optimal) << "trial " << trial;
    EXPECT_EQ(plan.height, bruteForceHeight(buffers)) << "trial " << trial;
    aboveLoad += plan.height > plan.maxLive;
  }
  // In some instances, every plan is higher than the maximum load (the largest
  // number of bytes live at the same time), and the search must prove that a
  // plan is optimal nonetheless.
  EXPECT_GT(aboveLoad, 2);
}

TEST(Arena, MediumRandomInstancesAreOptimal) {
  std::mt19937 random(2);
  for (int trial = 0; trial < 40; ++trial) {
    Buffers buffers = randomBuffers(random, 20 + trial, 40, 16, false);
    EXPECT_TRUE(planAndVerify(buffers).optimal) << "trial " << trial;
  }
}

/// Returns the lifetimes of a training step: values saved in the forward pass
/// die in the backward pass in reverse order, and every layer has short-lived
/// temporaries in both passes.
static Buffers trainingStep(int layers, int valuesPerLayer, int64_t alignment) {
  std::mt19937 random(3);
  auto bytes = [&] { return int64_t(1000 + random() % 40) * 96; };
  std::vector<int64_t> savedSizes, temporarySizes;
  for (int i = 0; i < valuesPerLayer; ++i) {
    savedSizes.push_back(bytes());
    temporarySizes.push_back(bytes());
  }
  const int steps = 2 * layers * valuesPerLayer;
  Buffers buffers;
  for (int layer = 0; layer < layers; ++layer)
    for (int i = 0; i < valuesPerLayer; ++i) {
      int forward = layer * valuesPerLayer + i;
      int backward = steps - 1 - forward;
      buffers.push_back({savedSizes[i], alignment, forward, backward + 1});
      buffers.push_back(
          {temporarySizes[i], alignment, forward, forward + 1 + i % 2});
      buffers.push_back(
          {savedSizes[i], alignment, backward, std::min(backward + 2, steps)});
      buffers.push_back({temporarySizes[i], alignment, backward, backward + 1});
    }
  return buffers;
}

TEST(Arena, TrainingStepsReachTheLoad) {
  for (int layers : {2, 12, 48}) {
    Buffers buffers = trainingStep(layers, 14, 64);
    ArenaPlan plan = planAndVerify(buffers);
    EXPECT_EQ(plan.height, plan.maxLive) << layers << " layers";
  }
}

TEST(Arena, CopiesBetweenNestedLifetimes) {
  // The buffers are residuals with nested lifetimes, copies of parameters that
  // are freed in about the order of their allocation, and some large buffers
  // with short lifetimes.
  std::mt19937 random(3);
  Buffers buffers;
  const int32_t steps = 800;
  const int64_t copySizes[] = {70, 35, 20, 10, 5};
  auto add = [&](int64_t size, int32_t lower, int32_t upper) {
    buffers.push_back({size * 64, 64, lower, upper});
  };
  auto addCopy = [&](int32_t step) {
    add(copySizes[random() % 5], step,
        step + 300 + static_cast<int32_t>(random() % 30));
  };
  for (int32_t step = 0; step < steps; ++step) {
    add(2 + int64_t(random() % 6), step, 2 * steps - step);
    addCopy(step);
    addCopy(steps + step);
  }
  for (int32_t step = 60; step < 2 * steps; step += 120)
    add(1500, step, step + 80);
  ArenaOptions options;
  options.effort = 50'000'000;
  ArenaPlan plan = planAndVerify(buffers, options);
  EXPECT_EQ(plan.method, "time, long-lived first");
  EXPECT_LE(double(plan.height), 1.02 * double(plan.maxLive));
}

TEST(Arena, SameInputGivesSamePlan) {
  std::mt19937 random(4);
  Buffers buffers = randomBuffers(random, 300, 5000, 400, true);
  ArenaOptions options;
  options.effort = 20'000'000;
  ArenaPlan first = planAndVerify(buffers, options);
  ArenaPlan second = planAndVerify(buffers, options);
  EXPECT_EQ(first.offsets, second.offsets);
  EXPECT_EQ(first.nodes, second.nodes);
  EXPECT_EQ(first.steps, second.steps);
  EXPECT_EQ(first.method, second.method);
}

TEST(Arena, SearchImprovesOnGreedyOrders) {
  std::mt19937 random(5);
  Buffers buffers = randomBuffers(random, 60, 100, 40, false);
  ArenaOptions greedy;
  greedy.effort = 0;
  ArenaPlan rough = planAndVerify(buffers, greedy);
  ArenaPlan fine = planAndVerify(buffers);
  EXPECT_EQ(rough.nodes, 0u);
  EXPECT_LT(fine.height, rough.height);
  EXPECT_EQ(fine.method, "search");
}

TEST(Arena, CapacityEndsTheSearch) {
  std::mt19937 random(5);
  Buffers buffers = randomBuffers(random, 60, 100, 40, false);
  ArenaOptions options;
  options.effort = 0;
  options.capacity = planAndVerify(buffers, options).height;
  options.effort = 1'000'000'000;
  ArenaPlan plan = planAndVerify(buffers, options);
  EXPECT_EQ(plan.height, options.capacity);
  EXPECT_EQ(plan.nodes, 0u);
}

TEST(Arena, UnreachableCapacityStillGivesAPlan) {
  Buffers buffers = {{100, 64, 0, 2}, {100, 64, 1, 3}};
  ArenaOptions options;
  options.capacity = 64;
  ArenaPlan plan = planAndVerify(buffers, options);
  EXPECT_EQ(plan.height, 256);
  EXPECT_TRUE(plan.optimal);
}

TEST(Arena, AnyEffortGivesAPlan) {
  // No order reaches the load, so each plan uses its effort up, or proves that
  // a larger height is optimal.
  std::mt19937 random(7);
  Buffers buffers;
  ArenaPlan best;
  do {
    buffers = randomBuffers(random, 8, 13, 8, false);
    best = planAndVerify(buffers);
  } while (best.height == best.maxLive);
  for (uint64_t effort = 0; effort < 4000; ++effort) {
    ArenaOptions options;
    options.effort = effort;
    EXPECT_GE(planAndVerify(buffers, options).height, best.height) << effort;
  }
}

TEST(Arena, SeparateMomentsShareTheArena) {
  Buffers buffers = {{64, 64, 0, 5}, {128, 64, 5, 9}, {1, 64, 9, 10}};
  ArenaPlan plan = planAndVerify(buffers);
  EXPECT_EQ(plan.height, 128);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 0, 0}));
}

TEST(Arena, EmptyBuffersTakeNoRoom) {
  EXPECT_EQ(planAndVerify({}).height, 0);
  Buffers buffers = {{0, 64, 0, 4}, {64, 64, 2, 2}, {10, 64, 0, 4}};
  ArenaPlan plan = planAndVerify(buffers);
  EXPECT_EQ(plan.height, 64);
  EXPECT_EQ(plan.offsets, (std::vector<int64_t>{0, 0, 0}));
}

TEST(Arena, OffsetsAreAligned) {
  std::mt19937 random(6);
  Buffers buffers = randomBuffers(random, 80, 1000, 30, false);
  const int64_t alignments[] = {1, 64, 256, 48};
  for (size_t i = 0; i < buffers.size(); ++i)
    buffers[i].alignment = alignments[i % 4];
  ArenaPlan plan = planAndVerify(buffers);
  for (size_t i = 0; i < buffers.size(); ++i)
    EXPECT_EQ(plan.offsets[i] % buffers[i].alignment, 0);
}

TEST(Arena, HugeSizesDoNotOverflow) {
  const int64_t size = int64_t(1) << 58;
  Buffers buffers = {{size, 64, 0, 2}, {size, 64, 1, 3}, {size, 64, 0, 3}};
  EXPECT_EQ(planAndVerify(buffers).height, 3 * size);
}

namespace {
class VerifyArena : public testing::Test {
protected:
  void SetUp() override {
    std::mt19937 random(7);
    buffers = randomBuffers(random, 40, 100, 30, false);
    for (ArenaBuffer &buffer : buffers)
      buffer.alignment = 4;
    plan = planAndVerify(buffers);
  }
  std::string check() {
    return verifyArena(buffers, plan).value_or("nothing wrong");
  }
  Buffers buffers;
  ArenaPlan plan;
};
} // namespace

TEST_F(VerifyArena, CatchesEveryPlantedOverlap) {
  // Plant one overlap at a time: move buffer i onto buffer j, for all i and j
  // that are live at the same time. Double the height of the plan, so that no
  // moved buffer exceeds the height and the overlaps are the only errors.
  plan.height *= 2;
  for (size_t i = 0; i < buffers.size(); ++i)
    for (size_t j = 0; j < buffers.size(); ++j) {
      if (i == j || buffers[j].lower >= buffers[i].upper ||
          buffers[i].lower >= buffers[j].upper)
        continue;
      int64_t original = plan.offsets[i];
      int64_t lastByte = plan.offsets[j] + buffers[j].paddedSize() - 4;
      for (int64_t offset : {plan.offsets[j], lastByte}) {
        plan.offsets[i] = offset;
        EXPECT_NE(check().find(" overlaps "), std::string::npos)
            << i << " onto " << j;
      }
      plan.offsets[i] = original;
    }
  EXPECT_EQ(check(), "nothing wrong");
}

TEST_F(VerifyArena, CatchesWrongOffsets) {
  plan.offsets[3] += 2;
  EXPECT_NE(check().find("buffer 3 "), std::string::npos);
  EXPECT_NE(check().find("is not at a multiple of 4"), std::string::npos);
  plan.offsets[3] = -4;
  EXPECT_NE(check().find("is not at a multiple of 4"), std::string::npos);
  plan.offsets[3] = plan.height;
  EXPECT_NE(check().find("ends above the arena's height"), std::string::npos);
}

TEST_F(VerifyArena, CatchesWrongTotals) {
  plan.maxLive -= 4;
  EXPECT_NE(check().find("reports a peak of"), std::string::npos);
  plan.offsets.pop_back();
  EXPECT_NE(check().find("39 offsets, expected 40"), std::string::npos);
}
