//===- RanksTest.cpp - Agreements of the ranks of a training run ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Ranks.h"

#include "ThreadWorlds.h"

using namespace kiln::runtime;
using namespace kiln;

namespace {

TEST(RanksTest, AVoteCombinesTheBallots) {
  ThreadWorlds worlds(3);
  worlds.onEach([](World &world) {
    Ranks ranks(world);
    EXPECT_EQ(ranks.isFirst(), world.rank() == 0);
    Result<Ballot> all =
        ranks.vote("the start", Status(),
                   {world.rank() == 1, world.rank() + 1, 0.5 * world.rank()});
    ASSERT_TRUE(all.ok());
    EXPECT_TRUE(all->stop);
    EXPECT_EQ(all->targets, 6);
    EXPECT_EQ(all->loss, 1.5);
    EXPECT_FALSE(ranks.vote("the start", Status())->stop);
    EXPECT_TRUE(ranks.finish(Status()).ok());
  });
}

TEST(RanksTest, AVoteReturnsTheErrorOfOneRankOnAll) {
  ThreadWorlds worlds(3);
  worlds.onEach([](World &world) {
    Ranks ranks(world);
    Status own =
        world.rank() == 2 ? Status::badInput("the disk is gone") : Status();
    Status status = ranks.vote("the start", own).status();
    EXPECT_EQ(status.code(), ExitCode::BadInput);
    EXPECT_EQ(status.message(), "rank 2: the disk is gone");
    Status end = ranks.finish(status);
    EXPECT_EQ(end.message(), "rank 2: the disk is gone");
  });
}

// Rank 1 fails before it calls vote(), and each of the other ranks calls vote()
// twice. All of these calls return the error of rank 1, and all ranks end
// together.
TEST(RanksTest, ARankThatGivesUpIsSeenInTheNextVote) {
  ThreadWorlds worlds(3);
  worlds.onEach([](World &world) {
    Ranks ranks(world);
    Status status;
    if (world.rank() == 1)
      status = Status::error("cannot read the data");
    else
      for (int i = 0; i < 3 && (status.ok() || i == 1); ++i)
        // Call vote() once more after the first error. A run that could not
        // save a checkpoint continues, so it also votes again.
        status = ranks.vote("the start", Status()).status();
    EXPECT_FALSE(status.ok());
    Status end = ranks.finish(status);
    EXPECT_EQ(end.code(), ExitCode::Error);
    EXPECT_EQ(end.message(), "rank 1: cannot read the data");
    EXPECT_TRUE(world.failure().ok());
  });
}

// Rank 1 finishes without an error before the other ranks.
TEST(RanksTest, ARankThatEndsBeforeTheOthersIsAnError) {
  ThreadWorlds worlds(3);
  worlds.onEach([](World &world) {
    Ranks ranks(world);
    Status status;
    std::string message =
        "rank 1 has ended its run, but other ranks continue with the start";
    if (world.rank() != 1) {
      status = ranks.vote("the start", Status()).status();
      EXPECT_EQ(status.message(), message);
    }
    Status end = ranks.finish(status);
    EXPECT_EQ(end.code(), ExitCode::Error);
    EXPECT_EQ(end.message(), message);
    EXPECT_TRUE(world.failure().ok());
  });
}

TEST(RanksTest, ADifferenceNamesTheFactAndTheRank) {
  ThreadWorlds worlds(3);
  worlds.onEach([](World &world) {
    Ranks ranks(world);
    EXPECT_TRUE(ranks.compare({{"flags", 4}, {"programs", 5}}).ok());
    uint64_t hash = world.rank() == 2 ? 6 : 5;
    Status status = ranks.compare({{"flags", 4}, {"programs", hash}});
    EXPECT_EQ(status.code(), ExitCode::Usage);
    EXPECT_EQ(status.message(), "the programs of rank 2 differ from those of "
                                "rank 0; all ranks must have the same "
                                "programs");
  });
}

TEST(RanksTest, RanksWithTheSameSequencesCountOnce) {
  ThreadWorlds worlds(6);
  worlds.onEach([](World &world) {
    Ranks ranks(world);
    EXPECT_EQ(ranks.dataIndex(), world.rank());
    EXPECT_EQ(ranks.dataSize(), 6);
    EXPECT_EQ(ranks.vote("the start", Status(), {false, 1, 0})->targets, 6);
    ranks.useMesh(*support::parseMesh("dp=2,tp=3"));
    EXPECT_EQ(ranks.dataIndex(), world.rank() / 3);
    EXPECT_EQ(ranks.dataSize(), 2);
    Ballot mine = {world.rank() == 5, world.rank() < 3 ? 10 : 20, 0.5};
    Result<Ballot> all = ranks.vote("the start", Status(), mine);
    ASSERT_TRUE(all.ok());
    EXPECT_TRUE(all->stop);
    EXPECT_EQ(all->targets, 30);
    EXPECT_EQ(all->loss, 1);
    ranks.useMesh(*support::parseMesh("tp=6"));
    EXPECT_EQ(ranks.dataIndex(), 0);
    EXPECT_EQ(ranks.vote("the end", Status(), {false, 7, 2})->targets, 7);
  });
}

TEST(RanksTest, SomeFactsAreThoseOfAnAxis) {
  ThreadWorlds worlds(4);
  worlds.onEach([](World &world) {
    Ranks ranks(world);
    ranks.useMesh(*support::parseMesh("dp=2,tp=2"));
    auto compare = [&](uint64_t hash) {
      return ranks.compare({{"flags", 4}, {"parts", hash, {"tp"}}}).message();
    };
    EXPECT_EQ(compare(uint64_t(world.rank() % 2)), "");
    EXPECT_EQ(compare(uint64_t(world.rank())),
              "the parts of rank 2 differ from those of rank 0; both ranks "
              "must have the same parts");
    EXPECT_EQ(compare(uint64_t(world.rank() == 3 ? 7 : world.rank() % 2)),
              "the parts of rank 3 differ from those of rank 1; both ranks "
              "must have the same parts");
  });
}

TEST(RanksTest, OneRankNeedsNoMessages) {
  Ranks ranks;
  EXPECT_EQ(ranks.size(), 1);
  EXPECT_EQ(ranks.world(), nullptr);
  // A check may run a single rank of a program that is for several ranks.
  ranks.useMesh(*support::parseMesh("dp=2,tp=2"));
  EXPECT_EQ(ranks.dataIndex(), 0);
  EXPECT_EQ(ranks.dataSize(), 1);
  EXPECT_EQ(ranks.vote("the start", Status(), {true, 7, 2})->targets, 7);
  EXPECT_EQ(ranks.finish(Status::error("failed")).message(), "failed");
  EXPECT_TRUE(ranks.compare({{"flags", 1}}).ok());
}

TEST(RanksTest, TheNumberOfRanksIsThatOfTheProgram) {
  Description one, two;
  two.mesh.axes = {{"dp", 2}};
  Ranks alone;
  EXPECT_TRUE(alone.checkSize(one, "./train").ok());
  Status status = alone.checkSize(two, "./train");
  EXPECT_EQ(status.code(), ExitCode::Usage);
  EXPECT_EQ(
      status.message(),
      "this executable was compiled for 2 ranks (--mesh=dp=2), but one was "
      "started: start it with mpirun -n 2 ./train ...");
  ThreadWorlds worlds(2);
  worlds.onEach([&](World &world) {
    Ranks ranks(world);
    EXPECT_TRUE(ranks.checkSize(two, "./train").ok());
    EXPECT_EQ(ranks.checkSize(one, "./train").message(),
              "this executable was compiled for one rank, but 2 were started: "
              "compile it with --mesh=dp=2, or start it without mpirun");
  });
}

} // namespace
