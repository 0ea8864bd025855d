//===- GenerateTest.cpp - Tests of token sampling -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Generate.h"

#include <cmath>
#include <gtest/gtest.h>

using namespace kiln::runtime;
using namespace kiln;

namespace {

using Logits = std::vector<std::pair<double, int64_t>>;

int64_t sample(double temperature, int64_t topK, double uniform) {
  // At temperature 1, the probabilities of the tokens are 1/7, 4/7 and 2/7.
  Logits logits = {{0.0, 0}, {std::log(4.0), 1}, {std::log(2.0), 2}};
  return sampleToken(logits, temperature, topK, uniform);
}

TEST(SampleTest, ZeroTemperatureTakesTheLargest) {
  EXPECT_EQ(sample(0, 0, 0.999), 1);
  Logits equal = {{1.0, 5}, {1.0, 3}};
  EXPECT_EQ(sampleToken(equal, 0, 0, 0.5), 3);
}

TEST(SampleTest, FollowsTheProbabilities) {
  EXPECT_EQ(sample(1, 0, 0.0), 1);
  EXPECT_EQ(sample(1, 0, 0.57), 1);
  EXPECT_EQ(sample(1, 0, 0.58), 2);
  EXPECT_EQ(sample(1, 0, 0.85), 2);
  EXPECT_EQ(sample(1, 0, 0.86), 0);
}

TEST(SampleTest, TopKDropsTheRest) {
  EXPECT_EQ(sample(1, 2, 0.99), 2);
  EXPECT_EQ(sample(1, 1, 0.99), 1);
  EXPECT_EQ(sample(1, 100, 0.99), 0);
}

TEST(SampleTest, LowTemperatureSharpens) {
  // The sorted probabilities are 16/21, 4/21 and 1/21.
  EXPECT_EQ(sample(0.5, 0, 0.76), 1);
  EXPECT_EQ(sample(0.5, 0, 0.77), 2);
}

} // namespace
