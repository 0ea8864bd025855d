//===- WaitPolicyTest.cpp - Tests of spin limits --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "WaitPolicy.h"

#include <gtest/gtest.h>

using namespace kiln::runtime;
using namespace kiln;

namespace {

TEST(WaitPolicyTest, SpinsForATimeByDefault) {
  for (const char *nothing : {(const char *)nullptr, "", "soon", "-3", "4x"}) {
    WaitPolicy policy = chooseWaitPolicy(2, 2, nothing, nothing);
    EXPECT_FALSE(policy.looks);
    EXPECT_GE(policy.nanoseconds, 20'000);
    EXPECT_LE(policy.nanoseconds, 100'000);
  }
}

TEST(WaitPolicyTest, ReadsTheVariablesOfLibgomp) {
  auto looks = [](const char *policy, const char *count) {
    return chooseWaitPolicy(4, 4, policy, count).looks.value();
  };
  EXPECT_EQ(looks("passive", nullptr), 0u);
  EXPECT_EQ(looks(" PASSIVE ", ""), 0u);
  EXPECT_EQ(looks("Active", nullptr), 30'000'000'000u);
  // GOMP_SPINCOUNT, the second argument, overrides OMP_WAIT_POLICY, the first.
  EXPECT_EQ(looks("active", "0"), 0u);
  EXPECT_EQ(looks("passive", "3000"), 3000u);
  EXPECT_EQ(looks(nullptr, "3k"), 3000u);
  EXPECT_EQ(looks(nullptr, " 2 M "), 2'000'000u);
  EXPECT_EQ(looks(nullptr, "1G"), 1'000'000'000u);
  EXPECT_EQ(looks(nullptr, "1t"), 1'000'000'000'000u);
  EXPECT_EQ(looks(nullptr, "infinity"), UINT64_MAX);
  EXPECT_EQ(looks(nullptr, "INFINITE"), UINT64_MAX);
}

TEST(WaitPolicyTest, SpinsLittleWithoutProcessors) {
  auto looks = [](const char *policy, const char *count) {
    return chooseWaitPolicy(4, 3, policy, count).looks.value();
  };
  EXPECT_EQ(looks(nullptr, nullptr), 100u);
  EXPECT_EQ(looks("active", nullptr), 1000u);
  EXPECT_EQ(looks("passive", nullptr), 0u);
  EXPECT_EQ(looks(nullptr, "7"), 7u);
  EXPECT_EQ(looks(nullptr, "infinity"), 100u);
}

TEST(WaitPolicyTest, StopsSpinningWhenReadyOrAtTheBound) {
  int calls = 0;
  auto never = [&] {
    ++calls;
    return false;
  };
  WaitPolicy policy;
  policy.looks = 5;
  EXPECT_FALSE(spinUntil(policy, never));
  EXPECT_EQ(calls, 6);
  calls = 0;
  EXPECT_TRUE(spinUntil(policy, [&] { return ++calls == 3; }));
  EXPECT_EQ(calls, 3);

  policy = WaitPolicy();
  policy.nanoseconds = 200'000;
  int64_t before = monotonicNanoseconds();
  EXPECT_FALSE(spinUntil(policy, never));
  EXPECT_GE(monotonicNanoseconds() - before, 200'000);
  calls = 0;
  EXPECT_TRUE(spinUntil(policy, [&] { return ++calls == 40; }));
  EXPECT_EQ(calls, 40);
}

} // namespace
