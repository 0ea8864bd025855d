//===- TransferStress.h - Transfers at random points ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements --stress-copies. The calling thread executes each copy between its
// start and its wait, at points and in chunks that a seed determines: some
// copies directly at their start, some as late as possible, and some in several
// chunks between other commands. A collective over ranks is executed in one
// piece. If a program reuses memory too early or waits too late, its results
// depend on the seed. The results of a correct program do not.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_TRANSFERSTRESS_H
#define KILN_LIB_RUNTIME_ENGINE_TRANSFERSTRESS_H

#include "Transfers.h"

#include <array>
#include <vector>

namespace kiln::runtime {

class StressTransfers final : public Transfers {
public:
  /// `tokens` is the maximum number of transfer tokens of any program. If
  /// `world` is null, carryOutAlone() executes collectives without other ranks.
  StressTransfers(uint64_t seed, int64_t tokens, World *world = nullptr);

  void start(const TransferJob &job) override;
  void wait(int64_t token) override;
  void between() override;

private:
  enum class Habit { AtOnce, InPieces, Late };
  struct Pending {
    TransferJob job;
    int64_t done;
    Habit habit;
  };
  /// Transfers of one kind in the order of their starts.
  using Queue = std::vector<Pending>;

  uint64_t random();
  /// Continues the first transfer in the queue: copies up to `bytes` bytes of a
  /// copy, or executes a collective.
  void advance(Queue &queue, int64_t bytes);
  void finishFirst(Queue &queue);

  World *world_;
  uint64_t state_;
  std::array<Queue, transferKinds> queues_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_TRANSFERSTRESS_H
