//===- EmuDeviceTest.cpp - Tests of correct emulated kernels --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "EmuTesting.h"

#include <chrono>
#include <cmath>
#include <cstdio>
#include <gtest/gtest.h>
#include <numeric>
#include <set>

using namespace kiln::runtime::testing;
using namespace kiln::runtime;
using namespace kiln;

namespace {

/// Multiplies each row of immediates[0] columns by the sum of its elements. The
/// warps exchange their sums through shared memory, which requires a barrier
/// (omitted if `First` is false). A block processes immediates[1] rows one
/// after another in the same shared memory, which requires a second barrier
/// (omitted if `Second` is false).
template <bool First, bool Second>
void scaleBySum(char *const *args, const int64_t *immediates, int64_t units) {
  int64_t columns = immediates[0], rows = immediates[1];
  int64_t warps = columns / 32;
  for (int64_t i = 0; i < rows; ++i) {
    int64_t row = blockId() * rows + i;
    if (row >= units)
      return;
    float value = load<float>(args[0], row * columns + threadId());
    float sum = value;
    for (int32_t mask = 16; mask > 0; mask /= 2)
      sum += shuffleXor(sum, mask);
    if (threadId() % 32 == 0)
      storeShared(threadId() / 32, sum);
    if (First)
      kiln_emu_barrier();
    sum = 0;
    for (int64_t warp = 0; warp < warps; ++warp)
      sum += loadShared(warp);
    store(args[1], row * columns + threadId(), value * sum);
    if (Second)
      kiln_emu_barrier();
  }
}

EmuLaunch scaleLaunch(Device &device, EmuKernel kernel, int64_t columns) {
  EmuLaunch launch;
  launch.kernel = kernel;
  launch.name = "scale (h.0)";
  launch.arguments = {device.argument(0, 5 * columns, false, "x"),
                      device.argument(8192, 5 * columns, true, "y")};
  launch.immediates = {columns, 2};
  launch.units = 5;
  launch.unitsPerBlock = 2;
  launch.threads = columns;
  launch.sharedBytes = columns / 32 * 4;
  return launch;
}

TEST(EmuDeviceTest, ScalesRowsByTheirSums) {
  for (int64_t columns : {32, 64, 1024})
    for (uint64_t seed = 0; seed < 10; ++seed) {
      Device device(seed);
      ASSERT_TRUE(device.status.ok()) << device.status.message();
      for (int64_t i = 0; i < 5 * columns; ++i)
        *device.at(i) = float(i % 7);
      EmuLaunch launch = scaleLaunch(device, scaleBySum<true, true>, columns);
      ASSERT_EQ(device.run(launch), "");
      for (int64_t row = 0; row < 5; ++row) {
        const float *x = device.at(row * columns);
        float sum = std::accumulate(x, x + columns, 0.0f);
        for (int64_t i = 0; i < columns; ++i)
          ASSERT_EQ(*device.at(8192 + row * columns + i), x[i] * sum);
      }
      EXPECT_EQ(device.counts.readSectors, 5 * columns / 8);
      EXPECT_EQ(device.counts.writeSectors, 5 * columns / 8);
    }
}

TEST(EmuDeviceTest, FindsAMissingBarrier) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Device device(seed);
    std::string message =
        device.run(scaleLaunch(device, scaleBySum<false, true>, 128));
    // The kind of fault depends on whether another warp has already written the
    // element.
    bool isRace = message.find("race in shared memory: ") != message.npos;
    bool isRead = message.find("uninitialised shared memory: read of 4 "
                               "bytes at offset ") != message.npos;
    EXPECT_TRUE(isRace || isRead) << message;
    EXPECT_NE(message.find("cuda-emu: kernel 'scale (h.0)', block "),
              message.npos)
        << message;
  }
}

// The race is found even if the order of the warps makes it harmless.
TEST(EmuDeviceTest, FindsAMissingBarrierBeforeSharedMemoryIsReused) {
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Device device(seed);
    std::string message =
        device.run(scaleLaunch(device, scaleBySum<true, false>, 128));
    EXPECT_NE(message.find("race in shared memory: "), message.npos) << message;
    EXPECT_NE(message.find("with no barrier between"), message.npos) << message;
  }
}

std::vector<int64_t> startedBlocks;

void noteBlock(char *const *, const int64_t *, int64_t) {
  if (threadId() == 0)
    startedBlocks.push_back(blockId());
}

std::vector<int64_t> orderOfBlocks(uint64_t seed, int launches) {
  Device device(seed);
  EmuLaunch launch;
  launch.kernel = noteBlock;
  launch.units = 11;
  launch.unitsPerBlock = 2;
  launch.threads = 40;
  startedBlocks.clear();
  for (int i = 0; i < launches; ++i)
    EXPECT_EQ(device.run(launch), "");
  return startedBlocks;
}

TEST(EmuDeviceTest, ShufflesBlocksBySeed) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    std::vector<int64_t> order = orderOfBlocks(seed, 1);
    EXPECT_EQ(order, orderOfBlocks(seed, 1));
    EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 6u);
    orders.insert(order);
  }
  EXPECT_GE(orders.size(), 15u);

  std::vector<int64_t> two = orderOfBlocks(3, 2);
  ASSERT_EQ(two.size(), 12u);
  EXPECT_NE(std::vector<int64_t>(two.begin(), two.begin() + 6),
            std::vector<int64_t>(two.begin() + 6, two.end()));
}

std::vector<int64_t> startedWarps;

void noteWarp(char *const *, const int64_t *, int64_t) {
  kiln_emu_barrier();
  if (threadId() % 32 == 0)
    startedWarps.push_back(threadId() / 32);
}

TEST(EmuDeviceTest, ShufflesWarpsBySeed) {
  std::set<std::vector<int64_t>> orders;
  for (uint64_t seed = 0; seed < 20; ++seed) {
    Device device(seed);
    EmuLaunch launch;
    launch.kernel = noteWarp;
    launch.units = 1;
    launch.threads = 256;
    startedWarps.clear();
    ASSERT_EQ(device.run(launch), "");
    EXPECT_EQ(startedWarps.size(), 8u);
    orders.insert(startedWarps);
  }
  EXPECT_GE(orders.size(), 15u);
}

/// result[thread] is the value of lane (thread * 5 + 1) % 32 of the warp.
void rotate(char *const *args, const int64_t *, int64_t) {
  uint64_t bits = uint64_t(threadId()) << 40;
  bits = kiln_emu_shuffle_idx(bits, int32_t(threadId() * 5 + 1));
  store(args[0], threadId(), float(bits >> 40));
}

TEST(EmuDeviceTest, ShufflesByIndexWithinTheWarp) {
  Device device(1);
  EmuLaunch launch;
  launch.kernel = rotate;
  launch.arguments = {device.argument(0, 64, true)};
  launch.units = 1;
  launch.threads = 64;
  ASSERT_EQ(device.run(launch), "");
  for (int64_t i = 0; i < 64; ++i)
    EXPECT_EQ(*device.at(i), float(i / 32 * 32 + (i * 5 + 1) % 32));
}

// Two threads write adjacent elements of 2 bytes in one word.
void storeHalves(char *const *args, const int64_t *, int64_t) {
  store<uint16_t>(args[0], threadId(), uint16_t(threadId()));
  kiln_emu_barrier();
  int64_t other = threadId() ^ 1;
  if (load<uint16_t>(args[0], other) == other)
    store<char>(args[0], 128 + threadId(), 'y');
}

TEST(EmuDeviceTest, NarrowNeighboursAreNoRace) {
  Device device(1);
  ASSERT_TRUE(device.device.invalidate(device.at(0), 4096).ok());
  EmuLaunch launch;
  launch.kernel = storeHalves;
  launch.arguments = {device.argument(0, 48, true)};
  launch.units = 1;
  launch.threads = 64;
  ASSERT_EQ(device.run(launch), "");
  EXPECT_EQ(std::string(reinterpret_cast<char *>(device.at(32)), 64),
            std::string(64, 'y'));
}

// Reads shared memory, but does not report the read to the emulated device.
void readPoison(char *const *args, const int64_t *, int64_t) {
  float value;
  std::memcpy(&value, kiln_emu_shared(threadId() * 4), 4);
  storeShared(threadId(), 1);
  store(args[0], blockId() * 32 + threadId(), value);
}

TEST(EmuDeviceTest, SharedMemoryOfEveryBlockBeginsAsNaNs) {
  Device device(1);
  EmuLaunch launch;
  launch.kernel = readPoison;
  launch.arguments = {device.argument(0, 96, true)};
  launch.units = 3;
  launch.threads = 32;
  launch.sharedBytes = 128;
  ASSERT_EQ(device.run(launch), "");
  for (int64_t i = 0; i < 96; ++i)
    EXPECT_TRUE(std::isnan(*device.at(i)));
}

// Adds one to each element. The test launches this kernel twice with args[0] ==
// args[1]. Each thread reads and writes only its own element.
void addOne(char *const *args, const int64_t *, int64_t units) {
  int64_t i = blockId() * 64 + threadId();
  if (i < units)
    store(args[1], i, load<float>(args[0], i) + 1);
}

TEST(EmuDeviceTest, ArgumentsMayOverlap) {
  Device device(1);
  EmuLaunch launch;
  launch.kernel = addOne;
  launch.arguments = {device.argument(0, 1000, false),
                      device.argument(0, 1000, true)};
  launch.units = 1000;
  launch.unitsPerBlock = 64;
  launch.threads = 64;
  EXPECT_EQ(device.run(launch), "");
  EXPECT_EQ(device.run(launch), "");
  EXPECT_EQ(*device.at(999), 2.0f);
  EXPECT_EQ(*device.at(1000), 0.0f);
}

TEST(EmuDeviceTest, RunsNothingForNoUnits) {
  Device device(1);
  EmuLaunch launch;
  launch.kernel = noteBlock;
  startedBlocks.clear();
  EXPECT_EQ(device.run(launch), "");
  EXPECT_TRUE(startedBlocks.empty());
}

TEST(EmuDeviceTest, RefusesLaunchesThatNoGpuTakes) {
  Device device(1);
  EmuLaunch launch;
  launch.kernel = noteBlock;
  launch.name = "k";
  launch.units = 1;
  launch.threads = 1025;
  EXPECT_EQ(device.run(launch),
            "cuda-emu: kernel 'k': expected 1 to 1024 threads, got 1025");
  launch.threads = 32;
  launch.sharedBytes = 166913;
  EXPECT_EQ(device.run(launch), "cuda-emu: kernel 'k': expected 0 to 166912 "
                                "bytes of shared memory, got 166913");
  launch.sharedBytes = 0;
  launch.units = int64_t{1} << 40;
  EXPECT_EQ(device.run(launch), "cuda-emu: kernel 'k': expected 1 to "
                                "2147483647 blocks, got 1099511627776");
  launch.units = 1;
  char host[4];
  launch.arguments = {device.argument(0, 1, true), {host, host + 4, false, ""}};
  EXPECT_EQ(device.run(launch),
            "cuda-emu: kernel 'k', argument 1: the range of 4 "
            "bytes is not within the device's memory");
  launch.arguments = {device.argument(Device::floats - 1, 2, true)};
  EXPECT_EQ(device.run(launch),
            "cuda-emu: kernel 'k', argument 0: the range of 8 "
            "bytes is not within the device's memory");
}

void manyBarriers(char *const *, const int64_t *immediates, int64_t) {
  for (int64_t i = 0; i < immediates[0]; ++i)
    kiln_emu_barrier();
}

void manyAccesses(char *const *args, const int64_t *immediates, int64_t) {
  for (int64_t i = 0; i < immediates[0]; ++i)
    store(args[0], threadId(), load<float>(args[0], threadId()) + 1);
}

void noWork(char *const *, const int64_t *, int64_t) {}

TEST(EmuDeviceTest, TellsWhatItsWorkCosts) {
  constexpr int64_t count = 200;
  auto nanoseconds = [](EmuKernel kernel, int64_t blocks, int64_t threads) {
    Device device(1);
    EmuLaunch launch;
    launch.kernel = kernel;
    launch.arguments = {device.argument(0, threads, true)};
    launch.immediates = {count};
    launch.units = blocks;
    launch.threads = threads;
    EXPECT_EQ(device.run(launch), "");
    auto start = std::chrono::steady_clock::now();
    EXPECT_EQ(device.run(launch), "");
    std::chrono::duration<double, std::nano> time =
        std::chrono::steady_clock::now() - start;
    return time.count() / double(threads * count);
  };
  for (int64_t threads : {32, 128, 256, 1024})
    std::printf("%4d threads: %5.1f ns per thread and barrier, %5.1f ns per "
                "load and store, %5.1f ns per thread of a block\n",
                int(threads), nanoseconds(manyBarriers, 1, threads),
                nanoseconds(manyAccesses, 1, threads),
                nanoseconds(noWork, count, threads));
}

} // namespace
