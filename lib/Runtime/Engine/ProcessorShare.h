//===- ProcessorShare.h - Sharing of a processor by a worker ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If another process uses the processor of a worker, the scheduler preempts the
// worker at any point after a time slice of some milliseconds. If the
// preemption occurs in the middle of a piece of a loop, the other threads of
// the team wait for the duration of another time slice until the worker
// completes its piece. Two threads can then be as slow as one. To avoid this, a
// worker that detects preemption yields its processor voluntarily before the
// end of its time slice: between two pieces, when no thread waits for the
// worker.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_PROCESSORSHARE_H
#define KILN_LIB_RUNTIME_ENGINE_PROCESSORSHARE_H

#include <cstdint>

namespace kiln::runtime {

/// The state of one worker. Only that worker may call the functions.
class ProcessorShare {
public:
  /// Must be called when the thread starts, and when it continues after a
  /// sleep.
  void begin();
  /// Returns true if the thread should call giveUp() before it executes the
  /// next piece of a loop.
  bool isSpent();
  /// Yields the processor to other processes.
  void giveUp();

private:
  /// Time at which the thread last continued after a sleep, or at which a check
  /// last found that it had been suspended.
  int64_t begun_ = 0;
  int64_t checked_ = 0; ///< Time of the last check.
  int64_t used_ = 0;    ///< CPU time of the thread at the last check.
  /// If positive, the worker assumes that another process uses its processor.
  /// giveUp() sleeps for the shortest possible time. It decrements this number
  /// if the thread continues without a long delay after the sleep, and
  /// otherwise sets this number to the maximum.
  int doubts_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_PROCESSORSHARE_H
