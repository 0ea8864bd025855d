//===- WorldTest.cpp - Agreements and failures of ranks -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Comm/World.h"

#include "CollectiveValues.h"
#include "Launcher.h"
#include "ThreadWorlds.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>

using namespace kiln::runtime;
using namespace kiln;

namespace {

TEST(WorldTest, RanksAgree) {
  for (int size : {1, 2, 3, 5}) {
    ThreadWorlds worlds(size);
    worlds.onEach([&](World &world) {
      int64_t rank = world.rank();
      EXPECT_EQ(world.size(), size);
      EXPECT_EQ(*world.agree("vote", rank + 10, AgreeBy::Min), 10);
      EXPECT_EQ(*world.agree("vote", rank + 10, AgreeBy::Max), size + 9);
      EXPECT_EQ(*world.agree("vote", int64_t(1), AgreeBy::Sum), size);
      EXPECT_EQ(*world.agree("vote", int64_t(7), AgreeBy::Equal), 1);
      EXPECT_EQ(*world.agree("vote", rank, AgreeBy::Equal), size == 1);
      EXPECT_EQ(*world.agree("vote", 0.5 * double(rank), AgreeBy::Max),
                0.5 * (size - 1));
      EXPECT_EQ(*world.agree("vote", 0.25, AgreeBy::Sum), 0.25 * size);
      std::vector<std::array<char, 3>> all((std::size_t(size)));
      std::array<char, 3> mine = {'a', char('0' + rank), 'z'};
      EXPECT_TRUE(world.gather("vote", mine.data(), 3, all.data()).ok());
      for (int i = 0; i < size; ++i)
        EXPECT_EQ(all[std::size_t(i)][1], '0' + i);
    });
  }
}

TEST(WorldTest, AgreementsWaitForTheSumsBeforeThem) {
  ThreadWorlds worlds(2);
  worlds.onEach([](World &world) {
    world.reserve(1, 4000);
    std::vector<float> values(1000, float(world.rank() + 1));
    std::vector<CollectiveSpan> spans = {
        {reinterpret_cast<char *>(values.data()), 1000}};
    CollectiveJob job = jobOf(Collective::AllReduce, spans);
    world.begin(job);
    EXPECT_EQ(*world.agree("vote", int64_t(1), AgreeBy::Sum), 2);
    EXPECT_EQ(values.back(), 3.0f);
  });
}

TEST(WorldTest, CountsAgreementsSeparately) {
  ThreadWorlds worlds(3);
  worlds.onEach([](World &world) {
    EXPECT_EQ(*world.agree("vote", int64_t(1), AgreeBy::Sum), 3);
    EXPECT_EQ(world.sent().of(TrafficKind::Agreement), 2 * 8);
    EXPECT_EQ(world.sent().of(TrafficKind::Sum), 0);
  });
}

double secondsSince(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
      .count();
}

TEST(WorldTest, ASimulatedNetworkLimitsTheRate) {
  // Each rank sends half of its 4 MB, and then the sum of the other half. At 10
  // MB/s, these 4 MB take 0.4 s. The call of agree() sends only a few bytes.
  ThreadWorlds worlds(2);
  worlds.onEach([](World &world) {
    world.simulateNetwork(10e6);
    world.reserve(1, 4'000'000);
    std::vector<float> values(1'000'000, float(world.rank() + 1));
    std::vector<CollectiveSpan> spans = {
        {reinterpret_cast<char *>(values.data()), 1'000'000}};
    CollectiveJob job = jobOf(Collective::AllReduce, spans);
    EXPECT_EQ(*world.agree("begin", int64_t(1), AgreeBy::Sum), 2);
    auto begin = std::chrono::steady_clock::now();
    world.wait(world.begin(job));
    double seconds = secondsSince(begin);
    EXPECT_GE(seconds, 0.4);
    EXPECT_LT(seconds, 2); // A busy machine may take longer than 0.4 s.
    EXPECT_EQ(std::count(values.begin(), values.end(), 3.0f), 1'000'000);
    EXPECT_EQ(world.sent().of(TrafficKind::Sum), 4'000'000);
  });
}

TEST(WorldTest, ASumWithoutItsPeersTimesOut) {
  ThreadWorlds worlds(2, /*peerTimeout=*/1);
  World &world = worlds[1];
  world.reserve(1, 4096);
  world.setStep(12);
  std::vector<float> values(1024);
  std::vector<CollectiveSpan> spans = {
      {reinterpret_cast<char *>(values.data()), 1024}};
  CollectiveJob job = jobOf(Collective::AllReduce, spans);
  job.name = "grad.h.0";
  auto begin = std::chrono::steady_clock::now();
  world.wait(world.begin(job));
  EXPECT_GT(secondsSince(begin), 0.9);
  EXPECT_LT(secondsSince(begin), 10);
  EXPECT_EQ(world.failure().message(),
            "all_reduce 'grad.h.0' of step 12 failed: nothing has arrived for "
            "1 s (--peer-timeout): another rank has ended or hangs; this rank "
            "exchanges messages with rank 0");
  EXPECT_EQ(worlds.aborted(), 1);
  // All later jobs fail immediately.
  EXPECT_FALSE(world.agree("vote", int64_t(1), AgreeBy::Sum).ok());
}

TEST(WorldTest, AnAgreementTimesOutUnlessItIsPatient) {
  ThreadWorlds worlds(3, /*peerTimeout=*/1);
  std::thread late([&] {
    std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    char all[3];
    EXPECT_TRUE(
        worlds[2].gather("save", "c", 1, all, Patience::Unlimited).ok());
    EXPECT_EQ(std::string(all, 3), "abc");
  });
  std::thread other([&] {
    char all[3];
    EXPECT_TRUE(
        worlds[1].gather("save", "b", 1, all, Patience::Unlimited).ok());
  });
  char all[3];
  EXPECT_TRUE(worlds[0].gather("save", "a", 1, all, Patience::Unlimited).ok());
  late.join();
  other.join();
  Status status = worlds[0].gather("the vote", "a", 1, all);
  EXPECT_EQ(status.message(),
            "the vote of step 0 failed: nothing has arrived for 1 s "
            "(--peer-timeout): another rank has ended or hangs; this rank "
            "exchanges messages with rank 2 and rank 1");
}

/// Twice starts an all-reduce, lets rank 0 fetch the bytes of every rank, and
/// calls agree().
void fetchAll(World &world, int64_t bytes) {
  int size = world.size();
  auto valueOf = [](int rank, int64_t i) {
    return char(rank * 50 + i % 47 + i / 1000);
  };
  std::vector<char> mine;
  for (int64_t i = 0; i < bytes; ++i)
    mine.push_back(valueOf(world.rank(), i));
  std::vector<float> values(100, 1);
  std::vector<CollectiveSpan> spans = {
      {reinterpret_cast<char *>(values.data()), 100}};
  for (int repeat = 0; repeat < 2; ++repeat) {
    world.begin(jobOf(Collective::AllReduce, spans));
    for (int from = 0; from < size; ++from) {
      std::vector<char> there(world.rank() == 0 ? std::size_t(bytes) : 0, 'x');
      Status status = world.fetch("a state", from, mine.data(), bytes,
                                  world.rank() == 0 ? there.data() : nullptr);
      EXPECT_TRUE(status.ok()) << status.message();
      bool isRight = true;
      for (std::size_t i = 0; i < there.size(); ++i)
        isRight &= there[i] == valueOf(from, int64_t(i));
      EXPECT_TRUE(isRight) << "from " << from;
    }
    EXPECT_EQ(*world.agree("vote", int64_t(1), AgreeBy::Sum), size);
  }
  EXPECT_EQ(values.back(), float(size * size));
  EXPECT_EQ(world.sent().of(TrafficKind::State),
            world.rank() == 0 ? 0 : 2 * bytes);
}

TEST(WorldTest, FetchesTheBytesOfEachRank) {
  WorldOptions options;
  options.fetchMessageBytes = 1000;
  for (int64_t bytes : {0, 1, 1000, 4321})
    for (int size : {1, 2, 3, 5}) {
      ThreadWorlds worlds(size, options);
      for (int rank = 0; rank < size; ++rank)
        worlds[rank].reserve(1, 400);
      worlds.onEach([&](World &world) { fetchAll(world, bytes); });
    }
}

TEST(WorldTest, AFetchIsPatientAndOtherRanksDoNotWaitForIt) {
  ThreadWorlds worlds(3, /*peerTimeout=*/1);
  EXPECT_TRUE(worlds[2].fetch("a state", 1, nullptr, 1, nullptr).ok());
  std::thread sender([&] {
    EXPECT_TRUE(worlds[1].fetch("a state", 1, "b", 1, nullptr).ok());
  });
  std::this_thread::sleep_for(std::chrono::milliseconds(1500));
  char there = 0;
  EXPECT_TRUE(worlds[0].fetch("a state", 1, nullptr, 1, &there).ok());
  sender.join();
  EXPECT_EQ(there, 'b');
}

TEST(WorldTest, AVoteIsNoPartOfASum) {
  // Rank 0 starts a sum while rank 1 calls agree(). All messages have 8 bytes,
  // but a message of agree() must not be received as a part of the sum, or the
  // other way round.
  ThreadWorlds worlds(2, /*peerTimeout=*/1);
  std::thread other([&] {
    EXPECT_FALSE(worlds[1].agree("the vote", int64_t(5), AgreeBy::Sum).ok());
  });
  World &world = worlds[0];
  world.reserve(1, 16);
  std::vector<double> values = {1, 2};
  std::vector<CollectiveSpan> spans = {
      {reinterpret_cast<char *>(values.data()), 2}};
  CollectiveJob job = jobOf(Collective::AllReduce, spans, ElementType::F64);
  world.wait(world.begin(job));
  other.join();
  EXPECT_FALSE(world.failure().ok());
  EXPECT_EQ(values, std::vector<double>({1, 2}));
}

TEST(WorldTest, AFailureEndsTheOtherRanks) {
  ThreadWorlds worlds(2);
  std::thread waiting([&] {
    char all[2];
    EXPECT_FALSE(worlds[0].gather("vote", "a", 1, all).ok());
  });
  worlds[1].fail("the disk is gone");
  waiting.join();
  EXPECT_EQ(worlds.aborted(), 1);
}

TEST(WorldTest, OneRankNeedsNoTransport) {
  Result<std::unique_ptr<World>> world = World::alone();
  ASSERT_TRUE(world.ok());
  (*world)->reserve(2, 1 << 20);
  EXPECT_EQ((*world)->scratchBytes(), 0);
  double value = 3;
  std::vector<CollectiveSpan> spans = {{reinterpret_cast<char *>(&value), 1}};
  CollectiveJob job = jobOf(Collective::AllReduce, spans, ElementType::F64);
  (*world)->wait((*world)->begin(job));
  EXPECT_EQ(value, 3);
  EXPECT_EQ(*(*world)->agree("vote", int64_t(4), AgreeBy::Equal), 1);
}

TEST(WorldTest, AFailedConnectionIsReported) {
  Result<std::unique_ptr<World>> world = World::over(
      []() -> Result<std::unique_ptr<Transport>> {
        return Status::error("no network");
      },
      {});
  ASSERT_FALSE(world.ok());
  EXPECT_EQ(world.status().message(), "no network");
}

//===----------------------------------------------------------------------===//
// Launchers
//===----------------------------------------------------------------------===//

Environment environment(std::map<std::string, std::string> values) {
  return [values](const char *name) {
    auto found = values.find(name);
    return found == values.end() ? nullptr : found->second.c_str();
  };
}

TEST(LauncherTest, FindsTheFamilyOfTheLauncher) {
  EXPECT_FALSE(findLaunch(environment({})));
  std::optional<Launch> launch =
      findLaunch(environment({{"OMPI_COMM_WORLD_RANK", "1"},
                              {"OMPI_COMM_WORLD_SIZE", "4"},
                              {"PMIX_RANK", "1"}}));
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->family, MpiFamily::OpenMpi);
  EXPECT_EQ(launch->rank, 1);
  EXPECT_EQ(launch->size, 4);
  launch = findLaunch(environment({{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}));
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->family, MpiFamily::Mpich);
  EXPECT_EQ(launch->size, 2);
  launch = findLaunch(environment({{"PMIX_RANK", "3"}}));
  ASSERT_TRUE(launch);
  EXPECT_EQ(launch->family, MpiFamily::OpenMpi);
  EXPECT_FALSE(launch->size);
}

TEST(LauncherTest, IgnoresValuesThatAreNotNumbers) {
  for (const char *text : {"", "x", "1x", "-1", "99999999999"})
    EXPECT_FALSE(findLaunch(environment({{"PMI_RANK", text}}))) << text;
}

TEST(LauncherTest, FindsLaunchersWithoutMpi) {
  EXPECT_EQ(launchedWithoutMpi(environment({})), 1);
  EXPECT_EQ(launchedWithoutMpi(environment({{"WORLD_SIZE", "2"}})), 1);
  EXPECT_EQ(
      launchedWithoutMpi(environment({{"RANK", "0"}, {"WORLD_SIZE", "2"}})), 2);
  EXPECT_EQ(rankWithoutMpi(environment({})), 0);
  EXPECT_EQ(rankWithoutMpi(environment({{"RANK", "1"}, {"WORLD_SIZE", "2"}})),
            1);
}

} // namespace
