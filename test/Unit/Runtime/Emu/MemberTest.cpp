//===- MemberTest.cpp - Tests of grouped launches -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmuTesting.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

constexpr int64_t args = 2, size = 70, stride = 256;

/// Computes y = x + immediate. A block executes one member of a group of
/// launches, and each member has its own arguments (x, y) in `table`.
void add(char *const *table, const int64_t *immediates, int64_t units) {
  char *const *own = table + args * kiln_emu_member_id();
  int64_t i = blockId() * 32 + threadId();
  if (i < units)
    store(own[1], i, load<float>(own[0], i) + float(immediates[0]));
}

/// Uses the arguments of the first launch of the group in the blocks of all
/// launches.
void addToFirst(char *const *table, const int64_t *, int64_t units) {
  int64_t i = blockId() * 32 + threadId();
  if (i < units)
    store(table[1], i, 1.0f);
}

class MemberTest : public ::testing::Test {
protected:
  MemberTest() {
    launch.name = "all";
    launch.units = size;
    launch.unitsPerBlock = launch.threads = 32;
    launch.immediates = {7};
    for (const char *name : {"a", "b", "c"})
      addMember(name, int64_t(launch.members.size()) * 2 * stride);
  }
  void addMember(std::string_view name, int64_t at) {
    launch.members.push_back(name);
    launch.arguments.push_back(device.argument(at, size, false, "x"));
    launch.arguments.push_back(device.argument(at + stride, size, true, "y"));
  }

  Device device{3};
  EmuLaunch launch;
};

TEST_F(MemberTest, EachWorksOnItsOwnArguments) {
  launch.kernel = add;
  for (int64_t i = 0; i < Device::floats; ++i)
    *device.at(i) = float(i);
  EXPECT_EQ(device.run(launch), "");
  for (int64_t member = 0; member < 3; ++member)
    for (int64_t i = 0; i < stride; ++i)
      EXPECT_EQ(*device.at((2 * member + 1) * stride + i),
                float(i < size ? 2 * member * stride + i + 7
                               : (2 * member + 1) * stride + i));
  EmuCounts counts = device.counts;
  // A group of three launches transfers three times as many sectors as one
  // launch.
  launch.arguments.resize(args);
  launch.members.clear();
  EXPECT_EQ(device.run(launch), "");
  EXPECT_EQ(counts.readSectors, 3 * device.counts.readSectors);
  EXPECT_EQ(counts.writeSectors, 3 * device.counts.writeSectors);
}

TEST_F(MemberTest, NoneTouchesTheArgumentsOfAnother) {
  launch.kernel = addToFirst;
  std::string message = device.run(launch);
  EXPECT_EQ(message.rfind("cuda-emu: kernel 'b', block ", 0) == 0 ||
                message.rfind("cuda-emu: kernel 'c', block ", 0) == 0,
            true)
      << message;
  EXPECT_NE(message.find("out of bounds: write of 4 bytes at argument "),
            std::string::npos)
      << message;
}

TEST_F(MemberTest, RacesBetweenThemAreFound) {
  launch.kernel = add;
  launch.arguments[3] = launch.arguments[1];
  std::string message = device.run(launch);
  EXPECT_NE(message.find("race in global memory: write of 4 bytes at argument "
                         "1 ('y')"),
            std::string::npos)
      << message;
  EXPECT_NE(message.find(message.find("kernel 'a'") == std::string::npos
                             ? " of 'a', thread "
                             : " of 'b', thread "),
            std::string::npos)
      << message;
}

TEST_F(MemberTest, HaveEquallyManyArguments) {
  launch.kernel = add;
  launch.arguments.pop_back();
  EXPECT_EQ(device.run(launch),
            "cuda-emu: kernel 'all': 5 arguments cannot be divided equally "
            "among 3 members of the launch group");
}

} // namespace
