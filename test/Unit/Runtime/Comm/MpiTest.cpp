//===- MpiTest.cpp - Ranks that a launcher starts -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Starts KilnMpiRank with the launchers of Open MPI and MPICH. A test is
// skipped if the machine lacks the launcher.
//
//===----------------------------------------------------------------------===//

#include "RingCollective.h"

#include "CollectiveValues.h"

#include <array>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <gtest/gtest.h>
#include <string>
#include <sys/wait.h>

using namespace kiln::runtime;

namespace {

struct Outcome {
  int exitCode = -1;
  std::string output;
  double seconds = 0;
};

Outcome runCommand(const std::string &command) {
  Outcome outcome;
  auto begin = std::chrono::steady_clock::now();
  FILE *pipe = ::popen((command + " 2>&1").c_str(), "r");
  if (!pipe)
    return outcome;
  std::array<char, 4096> buffer;
  while (std::size_t bytes = std::fread(buffer.data(), 1, buffer.size(), pipe))
    outcome.output.append(buffer.data(), bytes);
  int status = ::pclose(pipe);
  outcome.exitCode = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
  outcome.seconds =
      std::chrono::duration<double>(std::chrono::steady_clock::now() - begin)
          .count();
  return outcome;
}

class MpiTest : public testing::TestWithParam<const char *> {
protected:
  void SetUp() override {
    if (runCommand("command -v " + launcher()).exitCode != 0)
      GTEST_SKIP() << launcher() << " is not installed";
  }
  std::string launcher() const { return std::string("mpirun.") + GetParam(); }
  Outcome runRanks(int ranks, const std::string &action) {
    bool isOpenMpi = std::string(GetParam()) == "openmpi";
    return runCommand("OMPI_ALLOW_RUN_AS_ROOT=1 "
                      "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 timeout 60 " +
                      launcher() + " -n " + std::to_string(ranks) +
                      (isOpenMpi ? " --oversubscribe --bind-to none " : " ") +
                      KILN_MPI_RANK + " " + action);
  }
};

TEST_P(MpiTest, SumsOverProcesses) {
  for (int ranks : {2, 3}) {
    int64_t count = 1'000'003, bytes = 0;
    std::vector<CollectiveSpan> spans = {{nullptr, count}};
    for (int rank = 0; rank < ranks; ++rank)
      bytes += ringSentBytes(jobOf(Collective::AllReduce, spans), ranks, rank);
    Outcome outcome = runRanks(ranks, "sum " + std::to_string(count) + " 2");
    EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
    EXPECT_NE(outcome.output.find(std::to_string(ranks) + " ranks: right, " +
                                  std::to_string(bytes) + " bytes sent"),
              std::string::npos)
        << outcome.output;
  }
}

TEST_P(MpiTest, SumsAndGathersShards) {
  for (int ranks : {2, 3}) {
    Outcome outcome = runRanks(ranks, "shards 1000003");
    EXPECT_EQ(outcome.exitCode, 0) << outcome.output;
    EXPECT_NE(
        outcome.output.find(std::to_string(ranks) + " ranks: right shards"),
        std::string::npos)
        << outcome.output;
  }
}

TEST_P(MpiTest, AStoppedRankEndsTheOthersAfterTheTimeOut) {
  Outcome outcome = runRanks(2, "hang");
  EXPECT_NE(outcome.exitCode, 0);
  EXPECT_NE(outcome.output.find(
                "error: rank 0: start of step 3 failed: nothing has arrived "
                "for 2 s (--peer-timeout)"),
            std::string::npos)
      << outcome.output;
  EXPECT_LT(outcome.seconds, 40);
}

TEST_P(MpiTest, AKilledRankEndsTheOthers) {
  Outcome outcome = runRanks(2, "die");
  EXPECT_NE(outcome.exitCode, 0);
  EXPECT_LT(outcome.seconds, 40);
}

TEST_P(MpiTest, AFailedRankEndsTheOthersWithItsReason) {
  Outcome outcome = runRanks(2, "fail");
  EXPECT_NE(outcome.exitCode, 0);
  EXPECT_NE(outcome.output.find("error: rank 1: rank 1 has no data\n"),
            std::string::npos)
      << outcome.output;
}

TEST_P(MpiTest, AMessageOfAnotherSizeIsAnError) {
  Outcome outcome = runRanks(2, "short");
  EXPECT_NE(outcome.exitCode, 0);
  EXPECT_NE(outcome.output.find(
                "error: rank 0: the state of step 3 failed: a message has 60 "
                "bytes, expected 100: the ranks execute different operations"),
            std::string::npos)
      << outcome.output;
}

INSTANTIATE_TEST_SUITE_P(Launchers, MpiTest,
                         testing::Values("openmpi", "mpich"),
                         [](const auto &info) {
                           return std::string(info.param);
                         });

} // namespace
