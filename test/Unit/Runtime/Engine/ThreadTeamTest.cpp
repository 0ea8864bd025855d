//===- ThreadTeamTest.cpp - Parallel loops --------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ThreadTeam.h"

#include <atomic>
#include <gtest/gtest.h>
#include <limits>
#include <vector>

using namespace kiln;

namespace {

TEST(ThreadTeamTest, CoversEveryIndexOnce) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadTeam team(threads);
    for (int64_t count : {0, 1, 2, 3, 7, 1000}) {
      std::vector<std::atomic<int>> seen(size_t(count) + 1);
      team.forEachPart(count, [&](int64_t begin, int64_t end, int thread) {
        EXPECT_LT(thread, threads);
        EXPECT_LT(begin, end);
        for (int64_t i = begin; i < end; ++i)
          ++seen[size_t(i)];
      });
      for (int64_t i = 0; i < count; ++i)
        EXPECT_EQ(seen[size_t(i)], 1);
    }
  }
}

TEST(ThreadTeamTest, UsesAllThreads) {
  ThreadTeam team(3);
  std::vector<std::atomic<int>> calls(3);
  team.forEachPart(
      3, [&](int64_t, int64_t, int thread) { ++calls[size_t(thread)]; });
  for (auto &count : calls)
    EXPECT_EQ(count, 1);
}

TEST(ThreadTeamTest, FlushesDenormalsInEveryThread) {
  ThreadTeam team(2);
  DenormalsFlushed flushed;
  volatile float smallest = std::numeric_limits<float>::min();
  std::vector<float> halves(2, 1.0f);
  team.forEachPart(2, [&](int64_t begin, int64_t end, int) {
    for (int64_t i = begin; i < end; ++i)
      halves[size_t(i)] = smallest * 0.5f;
  });
  EXPECT_EQ(halves[0], 0.0f);
  EXPECT_EQ(halves[1], 0.0f);
}

TEST(ThreadTeamTest, RestoresDenormals) {
  volatile float smallest = std::numeric_limits<float>::min();
  {
    DenormalsFlushed flushed;
  }
  EXPECT_NE(smallest * 0.5f, 0.0f);
}

} // namespace
