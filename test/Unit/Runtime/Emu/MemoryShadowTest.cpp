//===- MemoryShadowTest.cpp - Tests of the race detector ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "MemoryShadow.h"
#include "ArgumentTable.h"
#include "EmuRandom.h"

#include <gtest/gtest.h>

using namespace kiln::runtime::emu;

namespace {

struct Past {
  int64_t block, epoch, thread;
  bool isWrite;
};

/// Returns true if two accesses to the same byte are a data race. This is the
/// definition with which the test compares MemoryShadow. The epoch of an access
/// is the number of barriers that its block has passed before the access.
bool races(const Past &a, const Past &b) {
  if (!a.isWrite && !b.isWrite)
    return false;
  if (a.block != b.block)
    return true;
  return a.thread != b.thread && a.epoch == b.epoch;
}

// Uses few bytes, threads and blocks, so that all kinds of conflicts occur.
TEST(MemoryShadowTest, FindsTheRacesOfRandomAccesses) {
  alignas(4) static char memory[12];
  MemoryShadow shadow(memory, sizeof(memory));
  ASSERT_TRUE(shadow.ok());
  Random random(1);
  int64_t found = 0, accesses = 0;
  for (int round = 0; round < 20000; ++round) {
    shadow.newGeneration();
    std::vector<Past> past[sizeof(memory)];
    int64_t block = random.below(3), epoch = 0;
    int64_t writes = 1 + random.below(8);
    for (int step = 0; step < 40; ++step) {
      uint64_t event = random.below(20);
      if (event == 0) {
        block += 3;
        epoch = 0;
      }
      if (event < 6)
        ++epoch;
      int64_t bytes = int64_t{1} << random.below(4);
      int64_t offset = random.below(sizeof(memory) / bytes) * bytes;
      Past now{block, epoch, int64_t(random.below(3)),
               random.below(10) < uint64_t(writes)};
      bool expected = false;
      for (int64_t i = offset; i < offset + bytes; ++i)
        for (const Past &before : past[i])
          expected |= races(before, now);
      Race race = shadow.access(offset, bytes,
                                Accessor(now.block, now.epoch, now.thread),
                                now.isWrite);
      ++accesses;
      ASSERT_EQ(bool(race.other), expected) << "round " << round;
      if (expected) {
        ++found;
        bool isReal = false;
        for (const Past &before : past[race.offset])
          isReal |= races(before, now) && before.block == race.other.block() &&
                    before.thread == race.other.thread() &&
                    before.isWrite == race.otherWrote;
        EXPECT_TRUE(isReal) << "round " << round;
        break;
      }
      for (int64_t i = offset; i < offset + bytes; ++i)
        past[i].push_back(now);
    }
  }
  EXPECT_GT(found, 5000);
  EXPECT_GT(accesses, 5 * found / 2);
}

TEST(MemoryShadowTest, ContainsRangesUpToItsEnds) {
  alignas(4) static char memory[64];
  MemoryShadow shadow(memory + 16, 32);
  EXPECT_TRUE(shadow.contains(memory + 16, 32));
  EXPECT_TRUE(shadow.contains(memory + 48, 0));
  EXPECT_FALSE(shadow.contains(memory + 16, 33));
  EXPECT_FALSE(shadow.contains(memory + 15, 1));
  EXPECT_FALSE(shadow.contains(memory + 48, 1));
  EXPECT_FALSE(shadow.contains(memory + 17, INT64_MAX));
}

TEST(ArgumentTableTest, FindsTheRangeThatHoldsAnAccess) {
  static char memory[256];
  Random random(2);
  for (int round = 0; round < 500; ++round) {
    std::vector<MemoryShadow> shadows;
    for (int i = 0; i < 6; ++i)
      shadows.emplace_back(memory, 0);
    ArgumentTable table;
    std::vector<std::pair<int64_t, int64_t>> ranges;
    for (MemoryShadow &shadow : shadows) {
      int64_t begin = random.below(200), bytes = random.below(56);
      ranges.push_back({begin, begin + bytes});
      table.add(memory + begin, memory + begin + bytes, &shadow);
    }
    table.sort();
    for (int64_t i = 0; i < 250; i += 3) {
      int64_t bytes = 1 + random.below(16);
      bool holds = false;
      for (auto [begin, end] : ranges)
        holds |= begin <= i && i + bytes <= end;
      MemoryShadow *found = table.find(memory + i, bytes);
      ASSERT_EQ(found != nullptr, holds);
      if (found) {
        auto [begin, end] = ranges[found - shadows.data()];
        EXPECT_TRUE(begin <= i && i + bytes <= end);
      }
    }
  }
}

} // namespace
