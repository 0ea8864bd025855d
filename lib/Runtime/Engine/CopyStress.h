//===- CopyStress.h - Copies at random points -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements --stress-copies. The calling thread executes each copy between its
// start and its wait, at points and in chunks that a seed determines: some
// copies at once, some as late as possible, and some in several chunks between
// other commands. If a program reuses memory too early or waits too late, its
// results depend on the seed. The results of a correct program do not.
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
  using Queue = std::vector<Pending>; ///< Copies in the order of their starts.

  uint64_t random();
  /// Copies up to `bytes` bytes of the first copy in the queue.
  static void advance(Queue &queue, int64_t bytes);
  static void finishFirst(Queue &queue);

  uint64_t state_;
  std::array<Queue, copyDirections> queues_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COPYSTRESS_H
