//===- ChainOffloadTest.cpp - Lower bound with host memory ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ChainTestUtils.h"

#include <gtest/gtest.h>

using namespace kiln;

/// Returns two stages and a loss. The forward pass of a stage takes ten seconds
/// and its backward pass takes one second. A stage saves 100 bytes.
static Chain twoStages() {
  Chain chain;
  for (int i = 0; i < 2; ++i) {
    Stage stage;
    stage.fastForward = 10;
    StageOption option;
    option.saved = 100;
    option.forward = 10;
    option.backward = 1;
    stage.options = {option};
    chain.stages.push_back(stage);
  }
  Stage loss;
  loss.options.resize(1);
  chain.stages.push_back(loss);
  return chain;
}

TEST(ChainOffload, CopiesOverlapWithOnePassEach) {
  Chain chain = twoStages();
  auto bound = [&](int64_t budget, double out, double in) {
    return offloadTimeBound(chain, budget, out, in);
  };
  EXPECT_NEAR(bound(200, 1, 1), 22, 1e-4);
  // The 100 bytes of one stage are copied to the host in the 20 seconds of the
  // forward passes, and back in the two seconds of the backward passes.
  EXPECT_NEAR(bound(100, 0.2, 0.02), 22, 1e-4);
  // If the copies take longer, computing some of the bytes again is faster. 80
  // bytes are copied in 20 seconds, and computing the other 20 bytes again
  // takes two seconds.
  EXPECT_NEAR(bound(100, 0.25, 0.02), 24, 1e-4);
  EXPECT_NEAR(bound(100, 0.25, 0.05), 24, 1e-4);
  EXPECT_NEAR(bound(100, 1e9, 1e9), 32, 1e-3);
}

TEST(ChainOffload, CopiesOverlapWithOtherComputation) {
  Chain chain = twoStages();
  auto bound = [&](double out, double in, double otherSeconds) {
    return offloadTimeBound(chain, 100, out, in, otherSeconds);
  };
  // Five more seconds of computation hide 25 seconds of copies in the forward
  // pass, or seven seconds in the backward pass.
  EXPECT_NEAR(bound(0.25, 0.02, 5), 27, 1e-4);
  EXPECT_NEAR(bound(0.2, 0.07, 5), 27, 1e-4);
  // They are added to the time of computing a stage again.
  EXPECT_NEAR(bound(1e9, 1e9, 5), 37, 1e-3);
}

TEST(ChainOffload, NoScheduleIsFaster) {
  std::mt19937 random(5);
  for (int round = 0; round < 40; ++round) {
    Chain chain = randomChain(random, 4, 2);
    int64_t least = smallestFeasibleBudget(chain).bytes;
    ChainCost all = saveAll(chain);
    for (int64_t budget = least; budget <= all.peak;
         budget += std::max<int64_t>(1, (all.peak - least) / 5)) {
      double out = 0.05 * (round % 7), in = 0.04 * (round % 5);
      double bound = offloadTimeBound(chain, budget, out, in);
      EXPECT_LE(bound, all.time + 1e-9) << "round " << round;
      auto apart = exhaustiveTime(chain, budget);
      ASSERT_TRUE(apart);
      EXPECT_LE(bound, *apart + 1e-9) << "round " << round;
      // Keep the values that stage k saves, except its output, on the host
      // between the two passes of the stage. Nothing else runs during the
      // copies.
      for (size_t k = 0; k < chain.stages.size(); ++k) {
        Chain moved = chain;
        int64_t bytes = 0;
        for (StageOption &option : moved.stages[k].options) {
          int64_t most = option.saved - moved.value(int32_t(k) + 1);
          bytes = std::max(bytes, most);
          option.saved -= most;
          option.forwardWorkspace += most;
          option.backwardWorkspace += most;
        }
        if (auto seconds = exhaustiveTime(moved, budget)) {
          EXPECT_LE(bound, *seconds + double(bytes) * (out + in) + 1e-9)
              << "round " << round << ", stage " << k;
        }
      }
    }
  }
}
