//===- TransferEngine.h - Threads that execute transfers --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emulates the link between the device arena and the host arena with one thread
// per direction. Each thread executes the copies of its direction in the order
// of their starts. If the link has a rate, a copy of n bytes completes at time
// t + n / rate, and the thread sleeps until then. t is the maximum of the time
// at which the copy was started and the time at which the previous copy of that
// direction was due. The due time is used, and not the time at which the thread
// woke up, so that late wakeups do not accumulate. Collectives are jobs of
// the communication thread of World.h. Starting a transfer and waiting for one
// allocate no memory.
//
// The threads block all signals and do not belong to the team of ThreadTeam.h.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_TRANSFERENGINE_H
#define KILN_LIB_RUNTIME_ENGINE_TRANSFERENGINE_H

#include "Transfers.h"
#include "WaitPolicy.h"

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

namespace kiln::runtime {

class TransferEngine final : public Transfers {
public:
  /// `tokens` is the maximum number of transfer tokens of any program. The
  /// threads for copies are started only if `hasCopies`. If `world` is null,
  /// carryOutAlone() executes collectives without other ranks.
  TransferEngine(const LinkInfo &link, int64_t tokens, bool hasCopies = true,
                 World *world = nullptr);
  ~TransferEngine() override;
  TransferEngine(const TransferEngine &) = delete;
  TransferEngine &operator=(const TransferEngine &) = delete;

  /// Returns an error if the threads could not be started. In that case no
  /// transfer may be started.
  const Status &status() const { return status_; }

  void begin() override;
  void start(const TransferJob &job) override { start(job, nullptr); }
  void wait(int64_t token) override;

  /// Starts a transfer. If `timing` is not null, stores the start and end of
  /// the transfer in it before wait() for the transfer returns.
  void start(const TransferJob &job, TransferTiming *timing);

private:
  struct Order {
    const char *from;
    char *to;
    int64_t bytes;
    int64_t started; ///< The time at which start() was called.
    TransferTiming *timing;
  };
  /// The queue of one direction. `started` counts the copies passed to start(),
  /// and `done` counts the completed copies. The Order of copy i is stored in
  /// ring[i % ring.size()]. One ring entry per token is sufficient: a token is
  /// reused only after a wait for its copy, so that all unfinished copies have
  /// different tokens.
  struct Channel {
    std::vector<Order> ring;
    double bytesPerSecond = 0;
    std::atomic<uint64_t> started{0}, done{0};
    std::mutex mutex;
    std::condition_variable given, carriedOut;
    bool serving = false, stopping = false; ///< `mutex` protects both flags.
    /// Due time of the last copy. Only the thread of this channel accesses it.
    int64_t linkFree = 0;
    std::thread thread;
  };
  /// Identifies the last transfer that was started with a token: copy `number`
  /// of `channel` or, if `channel` is null, job `number` of `world_`.
  struct Ticket {
    Channel *channel;
    uint64_t number;
  };

  void startCollective(const TransferJob &job, TransferTiming *timing);
  void waitForCopy(const Ticket &ticket);
  static void serve(Channel &channel);
  static void carryOut(const Order &order, Channel &channel);

  World *world_;
  /// The bytes that the rank had sent at the beginning of the run.
  int64_t sentBefore_ = 0;
  /// Indexed by TransferKind::CopyOut and TransferKind::CopyIn.
  std::array<Channel, 2> channels_;
  std::vector<Ticket> tickets_; ///< Indexed by token.
  Status status_;
};

/// Forwards transfers to a TransferEngine, and records when each of them was
/// executed.
class TimedTransfers final : public Transfers {
public:
  struct Entry {
    std::size_t command;
    TransferKind kind;
    TransferTiming timing;
  };

  explicit TimedTransfers(TransferEngine &engine) : engine_(engine) {}

  void begin() override { engine_.begin(); }
  void start(const TransferJob &job) override;
  void wait(int64_t token) override { engine_.wait(token); }
  const CopyCounts &counts() const override { return engine_.counts(); }
  const SumCounts &sums() const override { return engine_.sums(); }

  /// Returns the transfers in the order of their starts. Their timings are
  /// complete when the run has ended.
  const std::deque<Entry> &entries() const { return entries_; }

private:
  TransferEngine &engine_;
  /// A deque does not move its entries when it grows. This is required, because
  /// TransferEngine stores pointers to the timings.
  std::deque<Entry> entries_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_TRANSFERENGINE_H
