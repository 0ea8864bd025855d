//===- WaitPolicy.h - Spin times of waiting threads -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread that waits for another thread of its team first polls a variable,
// because waking a sleeping thread takes longer than most commands. After a
// bounded number of polls or a bounded time, the thread sleeps, so that the
// awaited thread or another process can use the processor.
//
// The environment variables OMP_WAIT_POLICY and GOMP_SPINCOUNT determine the
// bound, as in libgomp.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_WAITPOLICY_H
#define KILN_LIB_RUNTIME_ENGINE_WAITPOLICY_H

#include <atomic>
#include <cstdint>
#include <ctime>
#include <immintrin.h>
#include <optional>

namespace kiln::runtime {

struct WaitPolicy {
  /// The maximum number of polls. If nullopt, the polling time is limited to
  /// `nanoseconds` instead.
  std::optional<uint64_t> looks;
  int64_t nanoseconds = 0;
};

/// Returns the policy for a team of `threads` threads on `processors`
/// processors. `ompPolicy` and `gompSpinCount` are the values of
/// OMP_WAIT_POLICY and GOMP_SPINCOUNT; null means that the variable is not set.
WaitPolicy chooseWaitPolicy(int threads, int processors, const char *ompPolicy,
                            const char *gompSpinCount);

/// Returns the time of the monotonic clock.
inline int64_t monotonicNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

/// Calls ready() until it returns true or the policy's bound is reached.
/// Returns the result of the last call.
template <typename Ready>
bool spinUntil(const WaitPolicy &policy, Ready &&ready) {
  if (policy.looks) {
    for (uint64_t look = 0; look < *policy.looks; ++look) {
      if (ready())
        return true;
      _mm_pause();
    }
    return ready();
  }
  if (ready())
    return true;
  constexpr int looksPerClock = 16;
  int64_t end = monotonicNanoseconds() + policy.nanoseconds;
  while (monotonicNanoseconds() < end) {
    for (int look = 0; look < looksPerClock; ++look) {
      _mm_pause();
      if (ready())
        return true;
    }
  }
  return ready();
}

/// Sleeps if `word` equals `expected`. Returns when the thread is woken;
/// wakeups may be spurious.
void sleepWhileEqual(std::atomic<uint32_t> &word, uint32_t expected);

/// Wakes all threads that sleep on `word`.
void wakeSleepers(std::atomic<uint32_t> &word);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_WAITPOLICY_H
