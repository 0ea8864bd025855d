//===- ProcessorShare.h - A worker's part of a shared processor -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On a processor that another process uses too, the system takes a worker off
// after a slice of some milliseconds, wherever it is. The others of its team
// then wait for the piece that it had begun until it is on again, which takes
// another slice: two threads are no faster than one. So a worker that finds
// that it is taken off leaves its processor earlier, between two pieces, when
// nobody waits for it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_PROCESSORSHARE_H
#define KILN_LIB_RUNTIME_ENGINE_PROCESSORSHARE_H

#include <cstdint>

namespace kiln::runtime {

/// Belongs to the thread that calls it.
class ProcessorShare {
public:
  /// Notes that the thread has slept and is on a processor again.
  void begin();
  /// Returns true if the thread should call giveUp() before it goes on.
  bool isSpent();
  /// Lets other processes run first.
  void giveUp();

private:
  int64_t begun_ = 0;   ///< When the thread came on its processor.
  int64_t checked_ = 0; ///< When it was last checked how long the thread ran,
  int64_t used_ = 0;    ///< and the result.
  /// Others used the processor, unless as many giveUp() in a row were short.
  int doubts_ = 0;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_PROCESSORSHARE_H
