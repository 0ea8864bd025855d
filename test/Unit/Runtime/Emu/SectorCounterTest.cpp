//===- SectorCounterTest.cpp - Tests of memory traffic counts -------------===//
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

struct alignas(16) Float4 {
  float elements[4];
};
struct alignas(32) Float8 {
  float elements[8];
};

/// Computes result[i] = 2 * x[i] for i = immediates[0] + thread *
/// immediates[1].
void strided(char *const *args, const int64_t *immediates, int64_t) {
  int64_t i = immediates[0] + threadId() * immediates[1];
  store(args[1], i, load<float>(args[0], i) * 2);
}

template <typename T>
void copyWide(char *const *args, const int64_t *, int64_t) {
  store(args[1], threadId(), load<T>(args[0], threadId()));
}

/// Thread t reads x[i * 32 + t] for i = 0, ..., t, so that the lanes leave the
/// loop one after another. Thread 0 also reads x[4096].
void triangle(char *const *args, const int64_t *, int64_t) {
  float sum = 0;
  if (threadId() == 0)
    sum += load<float>(args[0], 4096);
  for (int64_t i = 0; i <= threadId(); ++i)
    sum += load<float>(args[0], i * 32 + threadId());
  store(args[1], threadId(), sum);
}

/// Loads the same bytes twice, with a barrier in between.
void twice(char *const *args, const int64_t *, int64_t) {
  float sum = 0;
  for (int64_t i = 0; i < 2; ++i) {
    sum += load<float>(args[0], threadId());
    kiln_emu_barrier();
  }
  store(args[1], threadId(), sum);
}

struct Sectors {
  int64_t read, written;
  bool operator==(const Sectors &other) const {
    return read == other.read && written == other.written;
  }
};
void PrintTo(const Sectors &sectors, std::ostream *out) {
  *out << sectors.read << " read, " << sectors.written << " written";
}

Sectors sectorsOf(EmuKernel kernel, int64_t threads,
                  std::vector<int64_t> immediates = {}) {
  Device device(7);
  EmuLaunch launch;
  launch.kernel = kernel;
  launch.name = "sectors";
  launch.arguments = {device.argument(0, 8192, false),
                      device.argument(8192, 8192, true)};
  launch.immediates = std::move(immediates);
  launch.units = 1;
  launch.threads = threads;
  EXPECT_EQ(device.run(launch), "");
  return {device.counts.readSectors, device.counts.writeSectors};
}

TEST(SectorCounterTest, CountsWhatTextbooksDo) {
  // 32 lanes access 128 contiguous bytes, 4 bytes per lane.
  EXPECT_EQ(sectorsOf(strided, 32, {0, 1}), (Sectors{4, 4}));
  EXPECT_EQ(sectorsOf(strided, 256, {0, 1}), (Sectors{32, 32}));
  // With an offset of 4 bytes, a warp touches 5 sectors instead of 4.
  EXPECT_EQ(sectorsOf(strided, 32, {1, 1}), (Sectors{5, 5}));
  EXPECT_EQ(sectorsOf(strided, 256, {1, 1}), (Sectors{40, 40}));
  EXPECT_EQ(sectorsOf(strided, 32, {8, 1}), (Sectors{4, 4}));
  // The strides are 2, 8 and 200 elements.
  EXPECT_EQ(sectorsOf(strided, 32, {0, 2}), (Sectors{8, 8}));
  EXPECT_EQ(sectorsOf(strided, 32, {0, 8}), (Sectors{32, 32}));
  EXPECT_EQ(sectorsOf(strided, 32, {0, 200}), (Sectors{32, 32}));
}

TEST(SectorCounterTest, WideAccessesAreSeveralOfSixteenBytes) {
  EXPECT_EQ(sectorsOf(copyWide<Float4>, 32), (Sectors{16, 16}));
  // Each sector counts twice, once for each of its halves.
  EXPECT_EQ(sectorsOf(copyWide<Float8>, 32), (Sectors{64, 64}));
}

TEST(SectorCounterTest, LanesThatSkipAnAccessDisturbNoOther) {
  // In iteration i of the loop, lanes i to 31 access 4 - i / 8 sectors.
  int64_t sectors = 1;
  for (int64_t i = 0; i < 32; ++i)
    sectors += 4 - i / 8;
  EXPECT_EQ(sectorsOf(triangle, 32), (Sectors{sectors, 4}));
}

TEST(SectorCounterTest, BarriersSeparateAccesses) {
  EXPECT_EQ(sectorsOf(twice, 64), (Sectors{16, 8}));
}

TEST(SectorCounterTest, LaunchesStartAtZero) {
  Device device(7);
  EmuLaunch launch;
  launch.kernel = strided;
  launch.arguments = {device.argument(0, 8192, false),
                      device.argument(8192, 8192, true)};
  launch.immediates = {0, 1};
  launch.units = 1;
  launch.threads = 32;
  for (int i = 0; i < 3; ++i) {
    ASSERT_EQ(device.run(launch), "");
    EXPECT_EQ(device.counts.readSectors, 4);
  }
}

} // namespace
