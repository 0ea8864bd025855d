//===- ChainSimulateTest.cpp - Memory model of chains -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks costs that were computed by hand, one invalid sequence per rule of the
// model, and the errors of verifyChain().
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Chain.h"

#include "gtest/gtest.h"

using namespace kiln::support;
using namespace kiln;

static ChainOp checkpoint(int32_t i) {
  return {ChainOpKind::ForwardCheckpoint, i, -1};
}
static ChainOp drop(int32_t i) { return {ChainOpKind::ForwardDrop, i, -1}; }
static ChainOp save(int32_t i) { return {ChainOpKind::ForwardSave, i, 0}; }
static ChainOp saveDrop(int32_t i) {
  return {ChainOpKind::ForwardSaveDrop, i, 0};
}
static ChainOp backward(int32_t i) { return {ChainOpKind::Backward, i, -1}; }

/// Returns three stages. Stage i computes the value a_(i+1) from the value a_i.
/// a_0 to a_3 have 10, 20, 30 and 1 bytes, and the gradient delta_i of a_i has
/// the size of a_i. If a stage saves values, it saves its output and 100 more
/// bytes. It takes 1 s forward if it does not save values, 2 s forward if it
/// saves values, and 4 s backward.
static Chain threeStages() {
  Chain chain;
  for (int64_t input : {10, 20, 30}) {
    Stage stage;
    stage.input = stage.inputGradient = input;
    stage.fastForward = 1;
    StageOption option;
    option.forward = 2;
    option.backward = 4;
    option.hostBytes = 7;
    stage.options.push_back(option);
    chain.stages.push_back(stage);
  }
  chain.output = chain.outputGradient = 1;
  for (int32_t i = 0; i < 3; ++i)
    chain.stages[i].options[0].saved = chain.value(i + 1) + 100;
  return chain;
}

TEST(ChainSimulate, SavesEverything) {
  ChainCost cost =
      simulate(threeStages(), {save(0), save(1), save(2), backward(2),
                               backward(1), backward(0)});
  EXPECT_EQ(cost.error, "");
  EXPECT_EQ(cost.time, 18);
  // At the peak, memory holds the input a_0, all saved values, and the
  // gradients delta_3 and delta_2.
  EXPECT_EQ(cost.peak, 10 + 120 + 130 + 101 + 1 + 30);
  EXPECT_EQ(cost.peakOp, 3);
  EXPECT_EQ(cost.hostPeak, 21);
}

TEST(ChainSimulate, RecomputesFromACheckpoint) {
  ChainCost cost = simulate(threeStages(),
                            {checkpoint(0), checkpoint(1), save(2), backward(2),
                             save(1), backward(1), save(0), backward(0)});
  EXPECT_EQ(cost.error, "");
  EXPECT_EQ(cost.time, 20);
  // At the peak, in Backward(1), memory holds the inputs a_0 and a_1 of stages
  // 0 and 1, the saved values of stage 1, and the gradients delta_2 and
  // delta_1.
  EXPECT_EQ(cost.peak, 10 + 20 + 130 + 30 + 20);
  EXPECT_EQ(cost.peakOp, 5);
  EXPECT_EQ(cost.hostPeak, 7);
}

TEST(ChainSimulate, SavesWithoutItsInput) {
  Chain chain = threeStages();
  ChainCost cost =
      simulate(chain, {checkpoint(0), saveDrop(1), save(2), backward(2),
                       save(0), backward(1), backward(0)});
  EXPECT_EQ(cost.error, "");
  EXPECT_EQ(cost.time, 19);
  EXPECT_EQ(cost.peak, 10 + 130 + 30 + 120 + 20);
  EXPECT_EQ(cost.peakOp, 5);
}

TEST(ChainSimulate, CountsWorkspace) {
  Chain chain = threeStages();
  std::vector<ChainOp> ops{checkpoint(0), drop(1),       save(2),
                           backward(2),   checkpoint(0), save(1),
                           backward(1),   save(0),       backward(0)};
  int64_t peak = simulate(chain, ops).peak; // The peak is in Backward(1).
  chain.stages[1].options[0].backwardWorkspace = 5;
  EXPECT_EQ(simulate(chain, ops).peak, peak + 5);
  // With a negative workspace, Backward(1) can overwrite the gradient delta_2
  // of its output with the gradient delta_1 of its input, so the peak does not
  // include delta_1.
  chain.stages[1].options[0].backwardWorkspace = -100;
  EXPECT_EQ(simulate(chain, ops).peak, peak - 20);
  chain.stages[1].fastForwardWorkspace = 1000;
  EXPECT_EQ(simulate(chain, ops).peak, 10 + 20 + 30 + 1 + 1000);
}

TEST(ChainSimulate, RefusesWhatIsNotASchedule) {
  Chain chain = threeStages();
  auto error = [&](std::vector<ChainOp> ops) {
    return simulate(chain, ops).error;
  };
  EXPECT_EQ(error({save(1)}),
            "operation 0 on stage 1: its input is not present");
  EXPECT_EQ(error({save(0), checkpoint(0)}),
            "operation 1 on stage 0: its output is already present");
  EXPECT_EQ(error({drop(0)}),
            "operation 0 on stage 0: its input cannot be dropped");
  EXPECT_EQ(error({save(0), saveDrop(1)}),
            "operation 1 on stage 1: its input cannot be dropped");
  EXPECT_EQ(error({save(0), save(0)}),
            "operation 1 on stage 0: it has already saved");
  EXPECT_EQ(error({{ChainOpKind::ForwardSave, 0, 1}}),
            "operation 0 on stage 0: the option does not exist");
  EXPECT_EQ(error({backward(2)}), "operation 0 on stage 2: its forward pass "
                                  "has not saved anything");
  EXPECT_EQ(error({backward(0)}), "operation 0 on stage 0: the gradient of its "
                                  "output is not present");
  EXPECT_EQ(error({checkpoint(0), drop(1), save(2), backward(2), save(2)}),
            "operation 4 on stage 2: its backward pass has already run");
  EXPECT_EQ(error({save(0), save(1), checkpoint(2)}),
            "operation 2 on stage 2: its output is no longer needed");
  EXPECT_EQ(
      error({checkpoint(0), saveDrop(1), save(2), backward(2), backward(1)}),
      "operation 4 on stage 1: its input is not present");
  EXPECT_EQ(error({backward(3)}),
            "operation 0 on stage 3: the stage does not exist");
  EXPECT_EQ(error({save(0)}), "the backward pass of stage 2 is missing");
}

TEST(ChainSimulate, ChecksChains) {
  Chain chain = threeStages();
  EXPECT_EQ(verifyChain(chain), "");
  chain.stages[1].options[0].saved = 29;
  EXPECT_EQ(verifyChain(chain),
            "stage 1: every option saves at least the stage's output");
  chain.stages[1].options[0].saved = int64_t(1) << 43;
  EXPECT_EQ(verifyChain(chain), "stage 1: an option saves 0 to 2^42 bytes");
  chain.stages[0].options[0].lossy = true;
  EXPECT_EQ(verifyChain(chain),
            "stage 0: expected at least one option that is not lossy");
  chain.stages[0].fastForward = -1;
  EXPECT_EQ(verifyChain(chain), "stage 0: times are finite and not negative");
  chain.stages[0].inputGradient = -1;
  EXPECT_EQ(verifyChain(chain),
            "stage 0: input and gradient need a size of 0 to 2^42 bytes");
  chain.stages.clear();
  EXPECT_EQ(verifyChain(chain), "a chain needs 1 to 2048 stages, got 0");
}
