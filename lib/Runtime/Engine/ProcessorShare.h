//===- ProcessorShare.h - Sharing of a processor by a worker ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If another process uses the same processor, the scheduler preempts a worker
// at any point after a slice of some milliseconds. The other threads of the
// team then wait for the duration of another slice until the worker completes
// its piece of the loop. Two threads can therefore be as slow as one. To avoid
// this, a worker that detects preemption yields its processor before the end of
// its slice, between two pieces, when no other thread waits for the worker.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_PROCESSORSHARE_H
#define KILN_LIB_RUNTIME_ENGINE_PROCESSORSHARE_H

#include <cstdint>

namespace kiln::runtime {

/// The state of one thread. Only that thread may call the functions.
class ProcessorShare {
public:
  /// Records that the thread has slept and now runs on a processor.
  void begin();
  /// Returns true if the thread should call giveUp() before it continues.
  bool isSpent();
  /// Yields the processor to other processes.
  void giveUp();

private:
  int64_t begun_ = 0;   ///< Time at which the thread began to run.
  int64_t checked_ = 0; ///< Time of the last check.
  int64_t used_ = 0;    ///< CPU time of the thread at the last check.
  /// The processor counts as shared while this number is positive. It is the
  /// number of further consecutive giveUp() calls that must be short before the
  /// processor no longer counts as shared.
  int doubts_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_PROCESSORSHARE_H
