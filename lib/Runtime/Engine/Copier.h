//===- Copier.h - Execution of asynchronous copies --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface through which CommandTable executes asynchronous copies. The
// results of a correct program do not depend on when a copy is executed between
// its start and its wait. In ordinary runs, the threads of CopyEngine.h execute
// the copies. In checks, the calling thread executes them: at the start or at
// the wait (SerialCopier), or at random points (StressCopier).
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COPIER_H
#define KILN_LIB_RUNTIME_ENGINE_COPIER_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Engine/Program.h"

#include <cstdint>
#include <vector>

namespace kiln::runtime {

/// One asynchronous copy.
struct CopyJob {
  const char *from = nullptr;
  char *to = nullptr;
  int64_t bytes = 0;
  CopyDirection direction = CopyDirection::Out;
  int64_t token = 0;   ///< Token of the copy_start command.
  std::size_t command; ///< Index of the copy_start command.
};

class Copier {
public:
  virtual ~Copier() = default;

  /// Called at the beginning of a run, when no copy is in flight.
  virtual void begin() { counts_ = {}; }
  virtual void start(const CopyJob &job) = 0;
  /// Waits until the last copy that was started with `token` has completed.
  /// Copies of one direction complete in the order of their starts.
  virtual void wait(int64_t token) = 0;
  /// Called between any two commands.
  virtual void between() {}

  /// Returns the counts since the last call of begin().
  virtual const CopyCounts &counts() const { return counts_; }

protected:
  /// Counts a copy. Every implementation of start() calls this function.
  void count(const CopyJob &job) {
    (job.direction == CopyDirection::Out ? counts_.outBytes
                                         : counts_.inBytes) += job.bytes;
  }

  CopyCounts counts_;
};

/// Executes copies on the calling thread, at the start or at the wait.
class SerialCopier final : public Copier {
public:
  enum class When { Start, Wait };

  explicit SerialCopier(When when) : when_(when) {}

  void start(const CopyJob &job) override;
  void wait(int64_t token) override;

private:
  When when_;
  std::vector<CopyJob> pending_; ///< The copies to execute, in start order.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COPIER_H
