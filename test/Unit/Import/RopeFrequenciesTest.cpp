//===- RopeFrequenciesTest.cpp - Tests of rotary embedding frequencies ----===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RopeFrequencies.h"

#include <gtest/gtest.h>

using namespace kiln;

namespace {

TEST(RopeFrequencies, Default) {
  RopeConfig rope;
  std::vector<double> f = ropeInverseFrequencies(rope, 8);
  ASSERT_EQ(f.size(), 4u);
  EXPECT_DOUBLE_EQ(f[0], 1.0);
  EXPECT_DOUBLE_EQ(f[1], 0.1);
  EXPECT_DOUBLE_EQ(f[2], 0.01);
  EXPECT_DOUBLE_EQ(f[3], 0.001);
}

TEST(RopeFrequencies, Linear) {
  RopeConfig rope;
  rope.kind = RopeConfig::Kind::Linear;
  rope.factor = 4.0;
  EXPECT_DOUBLE_EQ(ropeInverseFrequencies(rope, 4)[0], 0.25);
  EXPECT_DOUBLE_EQ(ropeInverseFrequencies(rope, 4)[1], 0.0025);
}

/// Compares the frequencies with the published formula of Llama 3.1, which
/// defines the scaling as a function of the wavelength.
TEST(RopeFrequencies, Llama3) {
  RopeConfig rope;
  rope.kind = RopeConfig::Kind::Llama3;
  rope.theta = 500000.0;
  rope.factor = 8.0;
  rope.lowFactor = 1.0;
  rope.highFactor = 4.0;
  rope.originalLength = 8192;
  RopeConfig plain;
  plain.theta = rope.theta;
  std::vector<double> scaled = ropeInverseFrequencies(rope, 128);
  std::vector<double> original = ropeInverseFrequencies(plain, 128);
  int kept = 0, slowed = 0, between = 0;
  for (int i = 0; i < 64; ++i) {
    double f = original[i];
    double wave = 2 * 3.14159265358979323846 / f;
    double expected;
    if (wave < 8192.0 / 4.0) {
      expected = f, ++kept;
    } else if (wave > 8192.0 / 1.0) {
      expected = f / 8.0, ++slowed;
    } else {
      double smooth = (8192.0 / wave - 1.0) / (4.0 - 1.0);
      expected = (1 - smooth) * f / 8.0 + smooth * f, ++between;
    }
    EXPECT_NEAR(scaled[i], expected, 1e-14 * f) << i;
  }
  EXPECT_GT(kept, 0);
  EXPECT_GT(slowed, 0);
  EXPECT_GT(between, 0);
}

} // namespace
