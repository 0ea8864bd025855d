//===- TransferEngineTest.cpp - Copies between the arenas ---------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TransferEngine.h"

#include "AllocationCounter.h"

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <gtest/gtest.h>
#include <string>
#include <sys/resource.h>
#include <unistd.h>

using namespace kiln::runtime;
using namespace kiln;

namespace {

/// Buffers of both arenas, and copy jobs between them.
struct Buffers {
  explicit Buffers(std::size_t bytes) : device(bytes), host(bytes) {
    for (std::size_t i = 0; i < bytes; ++i)
      device[i] = char(i * 7 + i / 256);
  }
  TransferJob out(int64_t offset, int64_t bytes, int64_t token) {
    return {device.data() + offset,
            host.data() + offset,
            bytes,
            TransferKind::CopyOut,
            token,
            0};
  }
  TransferJob in(int64_t from, int64_t to, int64_t bytes, int64_t token) {
    return {host.data() + from,
            device.data() + to,
            bytes,
            TransferKind::CopyIn,
            token,
            0};
  }
  std::vector<char> device, host;
};

double seconds(int64_t begin) {
  return double(monotonicNanoseconds() - begin) * 1e-9;
}

double processorSeconds(clockid_t clock) {
  timespec time;
  clock_gettime(clock, &time);
  return double(time.tv_sec) + double(time.tv_nsec) * 1e-9;
}

TEST(TransferEngineTest, CopiesOutAndIn) {
  TransferEngine engine({}, 3);
  Buffers buffers(1 << 20);
  engine.begin();
  engine.start(buffers.out(0, 400'001, 2));
  engine.wait(2);
  EXPECT_EQ(std::memcmp(buffers.host.data(), buffers.device.data(), 400'001),
            0);
  EXPECT_EQ(buffers.host[400'001], 0);
  engine.start(buffers.in(0, 500'000, 300'000, 0));
  engine.start(buffers.out(450'000, 0, 1)); // Zero bytes.
  engine.wait(1);
  engine.wait(0);
  EXPECT_EQ(std::memcmp(buffers.device.data() + 500'000, buffers.device.data(),
                        300'000),
            0);
  EXPECT_EQ(engine.counts().outBytes, 400'001);
  EXPECT_EQ(engine.counts().inBytes, 300'000);
  engine.begin();
  EXPECT_EQ(engine.counts().outBytes, 0);
}

TEST(TransferEngineTest, ManyRoundsReuseTheTokens) {
  // The engine's ring buffer of jobs wraps around, as in a step with
  // micro-batches.
  TransferEngine engine({}, 3);
  Buffers buffers(3 * 4096);
  for (int round = 0; round < 2000; ++round) {
    for (int64_t token = 0; token < 3; ++token) {
      buffers.device[size_t(token * 4096)] = char(round + token);
      engine.start(buffers.out(token * 4096, 4096, token));
    }
    for (int64_t token : {1, 0, 2}) {
      engine.wait(token);
      ASSERT_EQ(buffers.host[size_t(token * 4096)], char(round + token));
    }
  }
}

TEST(TransferEngineTest, OneDirectionKeepsTheOrderOfItsStarts) {
  // Each copy of 400 KiB takes about 20 ms at 20 MB/s.
  TransferEngine engine({20e6, 20e6}, 4);
  Buffers buffers(4 * 409'600);
  std::array<TransferTiming, 4> timings;
  for (int64_t token : {3, 1, 2})
    engine.start(buffers.out(token * 409'600, 409'600, token),
                 &timings[size_t(token)]);
  engine.start(buffers.in(0, 0, 409'600, 0), &timings[0]);
  for (int64_t token : {0, 1, 2, 3})
    engine.wait(token);
  EXPECT_LE(timings[3].end, timings[1].begin);
  EXPECT_LE(timings[1].end, timings[2].begin);
  // Copy 0, in the opposite direction, did not wait for the three copies above.
  EXPECT_LT(timings[0].end, timings[2].end);
}

TEST(TransferEngineTest, KeepsThePaceOfTheLink) {
  // 20 MB at 200 MB/s take 0.1 s.
  TransferEngine engine({200e6, 0}, 1);
  Buffers buffers(20'000'000);
  double best = 1;
  for (int attempt = 0; attempt < 3 && best > 0.12; ++attempt) {
    engine.begin();
    int64_t begin = monotonicNanoseconds();
    engine.start(buffers.out(0, 20'000'000, 0));
    EXPECT_LT(seconds(begin), 0.05); // start() does not block.
    engine.wait(0);
    double took = seconds(begin);
    EXPECT_GE(took, 0.1);
    EXPECT_LE(engine.counts().waitSeconds, took);
    EXPECT_GE(engine.counts().waitSeconds, 0.05);
    best = std::min(best, took);
  }
  EXPECT_LT(best, 0.15);
  EXPECT_EQ(std::memcmp(buffers.host.data(), buffers.device.data(), 20'000'000),
            0);
}

TEST(TransferEngineTest, ManyShortCopiesKeepThePaceToo) {
  // 200 copies of 100 KB at 200 MB/s take 0.1 s. The delays of late wakeups
  // must not accumulate.
  TransferEngine engine({200e6, 0}, 200);
  Buffers buffers(100'000);
  double best = 1;
  for (int attempt = 0; attempt < 3 && best > 0.12; ++attempt) {
    int64_t begin = monotonicNanoseconds();
    for (int64_t token = 0; token < 200; ++token)
      engine.start(buffers.out(0, 100'000, token));
    engine.wait(199);
    EXPECT_GE(seconds(begin), 0.1);
    best = std::min(best, seconds(begin));
  }
  EXPECT_LT(best, 0.15);
}

TEST(TransferEngineTest, ThePacedThreadLeavesTheProcessorAlone) {
  TransferEngine engine({50e6, 50e6}, 2);
  Buffers buffers(10'000'000);
  double process = processorSeconds(CLOCK_PROCESS_CPUTIME_ID);
  engine.start(buffers.out(0, 5'000'000, 0));
  engine.start(buffers.in(5'000'000, 5'000'000, 5'000'000, 1));
  // Compute for 20 ms of CPU time while the copies are in flight.
  double own = processorSeconds(CLOCK_THREAD_CPUTIME_ID);
  volatile double sum = 0;
  while (processorSeconds(CLOCK_THREAD_CPUTIME_ID) - own < 0.02)
    sum = sum + 1;
  engine.wait(0);
  engine.wait(1);
  own = processorSeconds(CLOCK_THREAD_CPUTIME_ID) - own;
  process = processorSeconds(CLOCK_PROCESS_CPUTIME_ID) - process;
  // The copies take 0.1 s, but only some milliseconds of CPU time.
  EXPECT_LT(process - own, 0.04);
  EXPECT_LT(own, 0.04); // The waiting thread sleeps.
}

TEST(TransferEngineTest, StartingAndWaitingAllocateNothing) {
#if KILN_COUNTS_ALLOCATIONS
  TransferEngine engine({500e6, 0}, 2);
  Buffers buffers(1 << 20);
  AllocationCounts before = *allocationCounts();
  for (int round = 0; round < 20; ++round) {
    engine.begin();
    engine.start(buffers.out(0, 1 << 19, 0));
    engine.start(buffers.in(1 << 19, 1 << 19, 1 << 19, 1));
    engine.wait(0);
    engine.wait(1);
  }
  AllocationCounts after = *allocationCounts();
  EXPECT_EQ(after.calls, before.calls);
  EXPECT_EQ(after.mapCalls, before.mapCalls);
  EXPECT_EQ(after.liveBytes, before.liveBytes);
#else
  ASSERT_FALSE(allocationCounts());
  GTEST_SKIP() << "a sanitizer brings its own allocator";
#endif
}

/// Returns the blocked signals of every thread with this name.
std::vector<uint64_t> blockedSignals(const std::string &thread) {
  std::vector<uint64_t> masks;
  for (const auto &task :
       std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream status(task.path() / "status");
    bool matches = false;
    for (std::string line; std::getline(status, line);) {
      if (line.rfind("Name:", 0) == 0)
        matches = line.substr(line.find('\t') + 1) == thread;
      if (matches && line.rfind("SigBlk:", 0) == 0)
        masks.push_back(
            std::stoull(line.substr(line.find('\t') + 1), nullptr, 16));
    }
  }
  return masks;
}

TEST(TransferEngineTest, ItsThreadsTakeNoSignals) {
  sigset_t before, after;
  pthread_sigmask(SIG_SETMASK, nullptr, &before);
  TransferEngine engine({}, 1);
  pthread_sigmask(SIG_SETMASK, nullptr, &after);
  std::vector<uint64_t> masks = blockedSignals("kiln-copy");
  EXPECT_EQ(masks.size(), 2u);
  for (int signal : {SIGTERM, SIGINT, SIGUSR1}) {
    EXPECT_EQ(sigismember(&after, signal), sigismember(&before, signal));
    for (uint64_t mask : masks)
      EXPECT_TRUE(mask >> (signal - 1) & 1) << signal;
  }
}

TEST(TransferEngineTest, SaysThatItsThreadsCannotStart) {
#if KILN_COUNTS_ALLOCATIONS
  // Run in a separate process, because this process has cached stacks of ended
  // threads, which new threads could use.
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto withoutMemory = [] {
    std::ifstream statm("/proc/self/statm");
    rlim_t pages = 0;
    statm >> pages;
    rlimit limit;
    getrlimit(RLIMIT_AS, &limit);
    limit.rlim_cur = pages * rlim_t(sysconf(_SC_PAGESIZE)) + (1 << 20);
    setrlimit(RLIMIT_AS, &limit);
    TransferEngine engine({}, 1);
    std::fprintf(stderr, "%s\n", engine.status().message().c_str());
    std::exit(int(engine.status().code()));
  };
  EXPECT_EXIT(withoutMemory(), testing::ExitedWithCode(1),
              "cannot start the threads that copy");
#else
  GTEST_SKIP() << "a sanitizer needs all of the address space";
#endif
}

TEST(TransferEngineTest, EndsWithCopiesThatNobodyWaitedFor) {
  Buffers buffers(1 << 20);
  TransferEngine engine({100e6, 0}, 2);
  engine.start(buffers.out(0, 1 << 19, 0));
  engine.start(buffers.out(0, 1 << 19, 1));
}

//===----------------------------------------------------------------------===//
// SerialTransfers
//===----------------------------------------------------------------------===//

TEST(SerialTransfersTest, CopiesAtTheStartOrAtTheWait) {
  Buffers buffers(64);
  SerialTransfers early(SerialTransfers::When::Start);
  early.start(buffers.out(0, 64, 0));
  EXPECT_EQ(buffers.host, buffers.device);
  early.wait(0);

  Buffers others(64);
  SerialTransfers late(SerialTransfers::When::Wait);
  late.start(others.out(0, 16, 0));
  late.start(others.in(32, 48, 16, 1));
  late.start(others.out(16, 16, 2));
  late.start(others.out(32, 16, 3));
  EXPECT_EQ(others.host, std::vector<char>(64));
  // Waiting for copy 2 completes copies 2 and 0, but neither copy 3, which was
  // started after copy 2, nor copy 1, which has the opposite direction.
  late.wait(2);
  EXPECT_EQ(std::memcmp(others.host.data(), others.device.data(), 32), 0);
  EXPECT_EQ(others.host[33], 0);
  EXPECT_NE(others.device[49], 0);
  late.wait(1);
  EXPECT_EQ(others.device[49], 0);
  late.wait(0);
  late.wait(3);
  EXPECT_EQ(std::memcmp(others.host.data(), others.device.data(), 48), 0);
}

} // namespace
