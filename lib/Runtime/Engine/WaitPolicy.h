//===- WaitPolicy.h - How long a thread spins before it sleeps --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A thread that waits for another one of its team first looks at a variable
// again and again, since waking a sleeper costs more than most commands take.
// After a bounded time it sleeps, so that it does not hold a processor that
// another process, or the thread it waits for, could use.
//
// The bound is that of the environment where there is one. OMP_WAIT_POLICY and
// GOMP_SPINCOUNT mean here what they mean to libgomp.
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
  /// The number of looks at the variable. If it is empty, time is the bound.
  std::optional<uint64_t> looks;
  int64_t nanoseconds = 0;
};

/// Reads the policy of a team of `threads` threads that may use `processors`.
/// Either argument may be null, as getenv() returns it.
WaitPolicy chooseWaitPolicy(int threads, int processors, const char *ompPolicy,
                            const char *gompSpinCount);

/// Returns the time of the monotonic clock.
inline int64_t monotonicNanoseconds() {
  timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return int64_t(now.tv_sec) * 1'000'000'000 + now.tv_nsec;
}

/// Calls ready() until it returns true or the policy's bound is reached.
/// Returns what the last call returned.
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

/// Sleeps unless `word` differs from `expected`; returns when it is woken, and
/// at times without a reason.
void sleepWhileEqual(std::atomic<uint32_t> &word, uint32_t expected);

/// Wakes all threads that sleep on `word`.
void wakeSleepers(std::atomic<uint32_t> &word);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_WAITPOLICY_H
