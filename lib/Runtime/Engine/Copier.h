//===- Copier.h - Who carries out asynchronous copies -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What CommandTable tells of the asynchronous copies of a run. Whenever between
// its start and its wait a copy is done, the results are the same; who wants to
// see that can choose when: the threads of CopyEngine.h in ordinary runs, the
// calling thread at once or as late as possible (SerialCopier) in checks, or at
// random points (StressCopier).
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COPIER_H
#define KILN_LIB_RUNTIME_ENGINE_COPIER_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Engine/Program.h"

#include <cstdint>
#include <vector>

namespace kiln::runtime {

/// One copy of a run.
struct CopyJob {
  const char *from = nullptr;
  char *to = nullptr;
  int64_t bytes = 0;
  CopyDirection direction = CopyDirection::Out;
  int64_t token = 0;   ///< Of its program.
  std::size_t command; ///< Index of the copy_start.
};

class Copier {
public:
  virtual ~Copier() = default;

  /// A run begins; no copy is in flight.
  virtual void begin() { counts_ = {}; }
  virtual void start(const CopyJob &job) = 0;
  /// Returns when the latest copy that was started with `token` is done. Copies
  /// of one direction are done in the order of their starts.
  virtual void wait(int64_t token) = 0;
  /// Between two commands.
  virtual void between() {}

  /// Of the run since begin().
  virtual const CopyCounts &counts() const { return counts_; }

protected:
  /// What every start() does.
  void count(const CopyJob &job) {
    (job.direction == CopyDirection::Out ? counts_.outBytes
                                         : counts_.inBytes) += job.bytes;
  }

  CopyCounts counts_;
};

/// Copies on the calling thread, at the start or at the wait.
class SerialCopier final : public Copier {
public:
  enum class When { Start, Wait };

  explicit SerialCopier(When when) : when_(when) {}

  void start(const CopyJob &job) override;
  void wait(int64_t token) override;

private:
  When when_;
  std::vector<CopyJob> pending_; ///< In the order of their starts.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COPIER_H
