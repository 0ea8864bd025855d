//===- CopyStress.h - Copies at random points -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements --stress-copies: the calling thread executes each copy between its
// start and its wait, at points and in chunks that a seed determines. Some
// copies are executed at once, some as late as possible, and some in parts
// between other commands. The results of a program that reuses memory too early
// or waits too late then differ; those of a correct program do not.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COPYSTRESS_H
#define KILN_LIB_RUNTIME_ENGINE_COPYSTRESS_H

#include "Copier.h"

#include <array>
#include <vector>

namespace kiln::runtime {

class StressCopier final : public Copier {
public:
  /// `copies` is the maximum number of copies of any program.
  StressCopier(uint64_t seed, int64_t copies);

  void start(const CopyJob &job) override;
  void wait(int64_t token) override;
  void between() override;

private:
  enum class Habit { AtOnce, InPieces, Late };
  struct Pending {
    CopyJob job;
    int64_t done;
    Habit habit;
  };
  using Queue = std::vector<Pending>; ///< In the order of their starts.

  uint64_t random();
  /// Copies up to `bytes` bytes of the first job.
  static void advance(Queue &queue, int64_t bytes);
  static void finishFirst(Queue &queue);

  uint64_t state_;
  std::array<Queue, copyDirections> queues_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COPYSTRESS_H
