//===- ProcessorsTest.cpp - Tests of processor affinity -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Processors.h"
#include "BusyMachine.h"
#include "ProcessorShare.h"
#include "WaitPolicy.h"

#include <atomic>
#include <gtest/gtest.h>
#include <thread>

using namespace kiln::runtime::test;
using namespace kiln::runtime;
using namespace kiln;

namespace {

TEST(ProcessorsTest, CountsThoseThatMayBeUsed) {
  EXPECT_EQ(availableProcessors(), processorCount());
  std::thread([] {
    useOneProcessor();
    EXPECT_EQ(availableProcessors(), 1);
  }).join();
}

TEST(ProcessorsTest, LeavesAProcessor) {
  if (processorCount() < 2)
    GTEST_SKIP() << "there is no other processor";
  cpu_set_t before = usableProcessors();
  bool left = false;
  // Try repeatedly, because the scheduler may move the thread back at once.
  for (int attempt = 0; attempt < 100 && !left; ++attempt) {
    int processor = sched_getcpu();
    leaveProcessor(processor);
    left = sched_getcpu() != processor;
  }
  EXPECT_TRUE(left);
  cpu_set_t after = usableProcessors();
  EXPECT_TRUE(CPU_EQUAL(&before, &after));
}

TEST(ProcessorsTest, StaysOnTheOnlyProcessor) {
  std::thread([] {
    useOneProcessor();
    int processor = sched_getcpu();
    leaveProcessor(processor);
    EXPECT_EQ(sched_getcpu(), processor);
    EXPECT_EQ(processorCount(), 1);
  }).join();
}

/// Two threads share one processor, and each of them detects this.
TEST(ProcessorShareTest, IsSpentBesideABusyThread) {
  std::atomic<bool> isOver{false};
  std::thread([&] {
    useOneProcessor();
    std::thread busy([&] {
      while (!isOver)
        ;
    });
    ProcessorShare share;
    share.begin();
    int64_t end = monotonicNanoseconds() + 10'000'000'000;
    bool isSpent = false;
    while (!isSpent && monotonicNanoseconds() < end)
      isSpent = share.isSpent();
    EXPECT_TRUE(isSpent);
    share.giveUp();
    EXPECT_FALSE(share.isSpent());
    isOver = true;
    busy.join();
  }).join();
}

} // namespace
