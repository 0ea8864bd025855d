//===- ThreadTeamTest.cpp - Parallel loops --------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ThreadTeam.h"

#include "BusyMachine.h"

#include <atomic>
#include <cstdlib>
#include <gtest/gtest.h>
#include <limits>
#include <string>
#include <thread>
#include <vector>

using namespace kiln::runtime::test;
using namespace kiln::runtime;
using namespace kiln;

namespace {

/// Records the calls of a loop body. The test fails if two concurrent calls
/// have the same thread index.
class Calls {
public:
  Calls(int64_t count, int threads)
      : seen_(size_t(count)), active_(size_t(threads)) {}

  void note(int64_t begin, int64_t end, int thread) {
    ASSERT_GE(thread, 0);
    ASSERT_LT(thread, int(active_.size()));
    EXPECT_EQ(active_[size_t(thread)]++, 0) << "thread " << thread;
    EXPECT_LT(begin, end);
    for (int64_t i = begin; i < end; ++i)
      ++seen_[size_t(i)];
    --active_[size_t(thread)];
  }
  void expectAllSeen(int times = 1) const {
    for (const std::atomic<int> &count : seen_)
      ASSERT_EQ(count, times);
  }

private:
  std::vector<std::atomic<int>> seen_;
  std::vector<std::atomic<int>> active_;
};

TEST(ThreadTeamTest, CoversEveryIndexOnce) {
  for (int threads : {1, 2, 3, 5}) {
    ThreadTeam team(threads);
    ASSERT_TRUE(team.status().ok());
    EXPECT_EQ(team.size(), threads);
    // The last count is so large that a block contains several indexes.
    for (int64_t count : {0, 1, 2, 3, 7, 1000, 1'000'003}) {
      Calls calls(count, threads);
      team.forEachPart(count, [&](int64_t begin, int64_t end, int thread) {
        calls.note(begin, end, thread);
      });
      calls.expectAllSeen();
    }
  }
}

TEST(ThreadTeamTest, CoversEveryIndexInThousandsOfLoops) {
  ThreadTeam team(3);
  Calls calls(10, 3);
  constexpr int loops = 20'000;
  for (int loop = 0; loop < loops; ++loop)
    team.forEachPart(10, [&](int64_t begin, int64_t end, int thread) {
      calls.note(begin, end, thread);
    });
  calls.expectAllSeen(loops);
}

TEST(ThreadTeamTest, RunsOnceOnEveryThread) {
  ThreadTeam team(3);
  for (int round = 0; round < 100; ++round) {
    std::vector<std::atomic<int>> calls(3);
    std::vector<std::thread::id> ids(3);
    team.forEachThread([&](int thread) {
      ++calls[size_t(thread)];
      ids[size_t(thread)] = std::this_thread::get_id();
    });
    for (const std::atomic<int> &count : calls)
      ASSERT_EQ(count, 1);
    ASSERT_EQ(ids[0], std::this_thread::get_id());
    ASSERT_TRUE(ids[0] != ids[1] && ids[0] != ids[2] && ids[1] != ids[2]);
  }
}

/// Each call of the body waits for the other calls, so that every call needs
/// its own thread.
TEST(ThreadTeamTest, WorkersTakeParts) {
  ThreadTeam team(3);
  std::atomic<int> arrived{0};
  team.forEachPart(3, [&](int64_t begin, int64_t end, int) {
    arrived += int(end - begin);
    while (arrived < 3)
      std::this_thread::yield();
  });
  EXPECT_EQ(arrived, 3);
}

/// Thread 0 remains in its first call of the body until all other calls are
/// complete.
TEST(ThreadTeamTest, NobodyWaitsForWhatAnotherHasNotBegun) {
  ThreadTeam team(2);
  std::atomic<int64_t> done{0};
  team.forEachPart(64, [&](int64_t begin, int64_t end, int thread) {
    done += end - begin;
    while (thread == 0 && done < 64 && begin == 0)
      std::this_thread::yield();
  });
  EXPECT_EQ(done, 64);
}

TEST(ThreadTeamTest, RunsALoopInALoopOnItsThread) {
  ThreadTeam team(3);
  Calls outer(30, 3), inner(30, 3);
  team.forEachPart(30, [&](int64_t begin, int64_t end, int thread) {
    outer.note(begin, end, thread);
    team.forEachPart(end - begin, [&](int64_t first, int64_t last, int within) {
      EXPECT_EQ(within, thread);
      inner.note(begin + first, begin + last, within);
    });
  });
  outer.expectAllSeen();
  inner.expectAllSeen();
}

TEST(ThreadTeamTest, CallersTakeTurns) {
  ThreadTeam team(2);
  Calls calls(20, 2);
  constexpr int loops = 500;
  auto call = [&] {
    for (int loop = 0; loop < loops; ++loop)
      team.forEachPart(20, [&](int64_t begin, int64_t end, int thread) {
        calls.note(begin, end, thread);
      });
  };
  std::thread other(call);
  call();
  other.join();
  calls.expectAllSeen(2 * loops);
}

TEST(ThreadTeamTest, StartsAndStopsManyTimes) {
  for (int round = 0; round < 200; ++round) {
    ThreadTeam team(1 + round % 4);
    std::atomic<int64_t> sum{0};
    for (int loop = 0; loop < round % 3; ++loop)
      team.forEachPart(
          9, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
    EXPECT_EQ(sum, 9 * (round % 3));
  }
}

/// The caller and the worker share one processor. The caller must not wait
/// actively, because the worker cannot run while the caller does.
TEST(ThreadTeamTest, SharesOneProcessor) {
  for (bool afterTheStart : {false, true}) {
    std::thread([&] {
      if (!afterTheStart)
        useOneProcessor();
      ThreadTeam team(2);
      if (afterTheStart)
        team.forEachThread([](int) { useOneProcessor(); });
      std::atomic<int64_t> sum{0};
      double before = processSeconds();
      for (int loop = 0; loop < 500; ++loop)
        team.forEachPart(
            2, [&](int64_t begin, int64_t end, int) { sum += end - begin; });
      // If the caller waited actively for a time slice in each of the 500
      // loops, it would use seconds of CPU time.
      EXPECT_LT(processSeconds() - before, 0.5);
      EXPECT_EQ(sum, 1000);
    }).join();
  }
}

/// Returns true if an idle team uses much CPU time within `seconds`.
bool spinsWhileIdle(double seconds) {
  ThreadTeam team(2);
  double before = processSeconds();
  auto pause = std::chrono::milliseconds(10);
  for (int wait = 0; wait < int(seconds * 100); ++wait) {
    std::this_thread::sleep_for(pause);
    if (processSeconds() - before > 0.05)
      return true;
  }
  return false;
}

TEST(ThreadTeamTest, SpinsAsTheEnvironmentSays) {
  if (processorCount() < 2)
    GTEST_SKIP() << "a team of two spins little on one processor";
  constexpr double aWhile = 0.2, untilItDoes = 10;
  EXPECT_FALSE(spinsWhileIdle(aWhile));
  setenv("GOMP_SPINCOUNT", "infinity", 1);
  EXPECT_TRUE(spinsWhileIdle(untilItDoes));
  setenv("GOMP_SPINCOUNT", "0", 1);
  EXPECT_FALSE(spinsWhileIdle(aWhile));
  unsetenv("GOMP_SPINCOUNT");
  setenv("OMP_WAIT_POLICY", "ACTIVE", 1);
  EXPECT_TRUE(spinsWhileIdle(untilItDoes));
  setenv("OMP_WAIT_POLICY", "PASSIVE", 1);
  EXPECT_FALSE(spinsWhileIdle(aWhile));
  unsetenv("OMP_WAIT_POLICY");
}

TEST(ThreadTeamTest, CallerSleepsWhileItWaits) {
  ThreadTeam team(2);
  double before = processSeconds();
  team.forEachThread([&](int thread) {
    if (thread == 1)
      std::this_thread::sleep_for(std::chrono::milliseconds(300));
  });
  EXPECT_LT(processSeconds() - before, 0.1);
}

TEST(ThreadTeamTest, FlushesDenormalsInEveryThread) {
  ThreadTeam team(2);
  DenormalsFlushed flushed;
  volatile float smallest = std::numeric_limits<float>::min();
  std::vector<float> halves(2, 1.0f);
  team.forEachThread(
      [&](int thread) { halves[size_t(thread)] = smallest * 0.5f; });
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
