//===- LaunchGroupsTest.cpp - Tests of launch groups on a GPU -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CudaToy.h"
#include "GroupedProgram.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

constexpr std::size_t tableWords = 2 * tableMembers;

/// For each launch on the GPU, the number of its members. A member is a launch
/// of the program; one launch on the GPU executes a group of them.
std::vector<unsigned> launches;

void add(const fakecuda::Launch &launch) {
  launches.push_back(launch.members);
  const uint64_t *rest = launch.parameters + tableWords;
  EXPECT_EQ(rest[0], 2u);
  EXPECT_EQ(rest[1], uint64_t(groupedUnits));
  EXPECT_EQ(launch.blocks, 2u);
  for (std::size_t i = 0; i < tableWords; ++i)
    EXPECT_EQ(launch.parameters[i] != 0, i < 2 * launch.members);
  for (unsigned member = 0; member < launch.members; ++member) {
    const uint64_t *row = launch.parameters + 2 * member;
    auto *x = reinterpret_cast<float *>(fakecuda::hostPointer(row[0]));
    auto *y = reinterpret_cast<float *>(fakecuda::hostPointer(row[1]));
    for (int64_t i = 0; i < groupedUnits; ++i)
      y[i] = x[i] + float(rest[0]);
  }
}

class CudaLaunchGroupsTest : public ::testing::Test {
protected:
  void SetUp() override {
    static const void *const kernels[] = {"add"};
    launches.clear();
    fakecuda::reset(fakecuda::Settings());
    fakecuda::addKernel("add", {3, add, tableWords});
    Result<std::unique_ptr<Engine>> made =
        cuda::createCudaEngine(groupedProgram("cuda").dump(), kernels, 1,
                               toy::toyImages(), toy::fakeLibraries());
    ASSERT_TRUE(made.ok()) << made.status().message();
    engine = std::move(*made);
  }
  void TearDown() override {
    engine.reset();
    EXPECT_TRUE(fakecuda::violations().empty())
        << fakecuda::violations().front();
    EXPECT_TRUE(fakecuda::live().empty());
  }
  void check(const Status &status) {
    ASSERT_TRUE(status.ok()) << status.message();
    auto *y = reinterpret_cast<float *>(engine->outputData(0, 0));
    for (int64_t i = 0; i < groupedLaunches * groupedUnits; ++i)
      EXPECT_EQ(y[i], float(i + 2));
  }
  void start() {
    Status status = engine->start(1);
    ASSERT_TRUE(status.ok()) << status.message();
    auto *x = reinterpret_cast<float *>(engine->inputData(0, 0));
    for (int64_t i = 0; i < groupedLaunches * groupedUnits; ++i)
      x[i] = float(i);
  }

  std::unique_ptr<Engine> engine;
};

TEST_F(CudaLaunchGroupsTest, AreOneNodeOfTheGraph) {
  start();
  // The first run synchronizes after every command.
  check(engine->run(0));
  EXPECT_EQ(launches, std::vector<unsigned>(4, 1));
  launches.clear();
  check(engine->run(0));
  EXPECT_EQ(launches, (std::vector<unsigned>{3, 1}));
}

TEST_F(CudaLaunchGroupsTest, AreApartWhereEveryCommandIsWaitedFor) {
  ASSERT_TRUE(engine->syncOps().ok());
  start();
  for (int i = 0; i < 2; ++i)
    check(engine->run(0));
  EXPECT_EQ(launches, std::vector<unsigned>(8, 1));
}

TEST_F(CudaLaunchGroupsTest, HaveOneBarInATrace) {
  start();
  std::vector<TraceEvent> events;
  check(engine->runTraced(0, events));
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].name, "add0 and 2 more");
  EXPECT_EQ(events[1].name, "add3");
  EXPECT_EQ(launches, (std::vector<unsigned>{3, 1}));
}

} // namespace
