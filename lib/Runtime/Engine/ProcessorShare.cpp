//===- ProcessorShare.cpp - Sharing of a processor by a worker ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ProcessorShare.h"

#include "WaitPolicy.h"

#include <ctime>

namespace kiln::runtime {

/// The time after which a worker yields a shared processor. This is half of 4
/// ms, the usual length of a scheduler tick and of the shortest time slice in
/// Linux.
static constexpr int64_t turnNanoseconds = 2'000'000;
/// Interval between two checks. A check reads the CPU time of the thread. This
/// takes about 0.5 us, which is short compared with the interval.
static constexpr int64_t checkNanoseconds = 1'000'000;
/// If a thread is suspended for longer than this, another process is assumed to
/// use the same processor. Interruptions by system tasks are shorter. The
/// shortest possible sleep, after which giveUp() makes the same test, is also
/// shorter if no other process uses the processor.
static constexpr int64_t sharedNanoseconds = 500'000;
static constexpr int shortSleepsUntilAlone = 8;

static int64_t usedNanoseconds() {
  timespec used;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &used);
  return int64_t(used.tv_sec) * 1'000'000'000 + used.tv_nsec;
}

void ProcessorShare::begin() {
  begun_ = checked_ = monotonicNanoseconds();
  used_ = usedNanoseconds();
}

bool ProcessorShare::isSpent() {
  int64_t now = monotonicNanoseconds();
  if (now - checked_ >= checkNanoseconds) {
    int64_t used = usedNanoseconds();
    if (now - checked_ - (used - used_) > sharedNanoseconds) {
      doubts_ = shortSleepsUntilAlone;
      begun_ = now;
    }
    checked_ = now;
    used_ = used;
  }
  return doubts_ > 0 && now - begun_ >= turnNanoseconds;
}

void ProcessorShare::giveUp() {
  int64_t before = monotonicNanoseconds();
  timespec shortest = {0, 1};
  nanosleep(&shortest, nullptr);
  begin();
  doubts_ =
      begun_ - before > sharedNanoseconds ? shortSleepsUntilAlone : doubts_ - 1;
}

} // namespace kiln::runtime
