//===- Transfers.h - Execution of asynchronous transfers --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The interface through which CommandTable executes asynchronous transfers:
// copies between the arenas, and collectives over ranks. The results of a
// correct program do not depend on when a transfer is executed between its
// start and its wait. In ordinary runs, the threads of TransferEngine.h and
// World.h execute the transfers. In checks, the calling thread executes the
// copies and waits for the collectives. It does so at their starts or at their
// waits (SerialTransfers), or at random points (StressTransfers). All
// implementations execute collectives in the order of their starts, so that the
// order is the same on all ranks.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_TRANSFERS_H
#define KILN_LIB_RUNTIME_ENGINE_TRANSFERS_H

#include "kiln/Runtime/Comm/World.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Runtime/Engine/Program.h"

#include <cstdint>
#include <vector>

namespace kiln::runtime {

/// One asynchronous transfer.
struct TransferJob {
  // The source and destination of a copy.
  const char *from = nullptr;
  char *to = nullptr;
  int64_t bytes = 0;
  TransferKind kind = TransferKind::CopyOut;
  int64_t token = 0;       ///< Token of the command.
  std::size_t command = 0; ///< Index of the command.
  // Members of collectives. See CollectiveJob.
  Collective collective = Collective::AllReduce;
  const CollectiveSpan *spans = nullptr;
  std::size_t spanCount = 0;
  ElementType type = ElementType::F32;
  const char *name = ""; ///< Name of the command.
  support::MeshGroup group = {};

  bool isCollective() const { return kind == TransferKind::Collective; }
  /// Returns the job of a collective for World::begin().
  CollectiveJob ofRanks(TransferTiming *timing = nullptr) const {
    return {collective, spans, spanCount, type, name, timing, group};
  }
};

/// Executes a transfer on the calling thread. A collective is executed with the
/// other ranks of `world` or, if `world` is null, without other ranks, by
/// carryOutAlone().
void executeNow(const TransferJob &job, World *world);

class Transfers {
public:
  virtual ~Transfers() = default;

  /// Called at the beginning of a run, when no transfer is in flight.
  virtual void begin() {
    counts_ = {};
    sums_ = {};
  }
  virtual void start(const TransferJob &job) = 0;
  /// Waits until the last transfer that was started with `token` has completed.
  /// Transfers of one kind complete in the order of their starts.
  virtual void wait(int64_t token) = 0;
  /// Called before each command.
  virtual void between() {}

  /// Return the counts since the last call of begin().
  virtual const CopyCounts &counts() const { return counts_; }
  virtual const SumCounts &sums() const { return sums_; }

protected:
  /// Counts a transfer. Every implementation of start() calls this function.
  void count(const TransferJob &job) {
    if (!job.isCollective())
      (job.kind == TransferKind::CopyOut ? counts_.outBytes
                                         : counts_.inBytes) += job.bytes;
  }

  CopyCounts counts_;
  SumCounts sums_;
};

/// Executes transfers on the calling thread, either when they are started or
/// when they are waited for.
class SerialTransfers final : public Transfers {
public:
  enum class When { Start, Wait };

  /// If `world` is null, carryOutAlone() executes collectives without other
  /// ranks.
  explicit SerialTransfers(When when, World *world = nullptr)
      : when_(when), world_(world) {}

  void start(const TransferJob &job) override;
  void wait(int64_t token) override;

private:
  When when_;
  World *world_;
  /// The transfers that have been started but not executed, in start order.
  std::vector<TransferJob> pending_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_TRANSFERS_H
