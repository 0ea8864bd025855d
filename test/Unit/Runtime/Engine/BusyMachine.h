//===- BusyMachine.h - Processors and CPU time in tests ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_ENGINE_BUSYMACHINE_H
#define KILN_TEST_UNIT_RUNTIME_ENGINE_BUSYMACHINE_H

#include <ctime>
#include <sched.h>

namespace kiln::runtime::test {

inline cpu_set_t usableProcessors() {
  cpu_set_t set;
  CPU_ZERO(&set);
  sched_getaffinity(0, sizeof(set), &set);
  return set;
}

inline int processorCount() {
  cpu_set_t set = usableProcessors();
  return CPU_COUNT(&set);
}

/// Binds the calling thread and the threads that it starts to the first
/// available processor.
inline void useOneProcessor() {
  cpu_set_t all = usableProcessors(), one;
  int first = 0;
  while (!CPU_ISSET(first, &all))
    ++first;
  CPU_ZERO(&one);
  CPU_SET(first, &one);
  sched_setaffinity(0, sizeof(one), &one);
}

/// Returns the CPU time of all threads of this process.
inline double processSeconds() {
  timespec used;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &used);
  return double(used.tv_sec) + 1e-9 * double(used.tv_nsec);
}

} // namespace kiln::runtime::test

#endif // KILN_TEST_UNIT_RUNTIME_ENGINE_BUSYMACHINE_H
