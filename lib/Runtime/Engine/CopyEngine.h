//===- CopyEngine.h - Threads that execute asynchronous copies --*- C++ -*-===//
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
// woke up, so that late wakeups do not accumulate. Starting a copy and waiting
// for a copy allocate no memory.
//
// The threads block all signals and do not belong to the team of ThreadTeam.h.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_COPYENGINE_H
#define KILN_LIB_RUNTIME_ENGINE_COPYENGINE_H

#include "Copier.h"
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

/// Start and end of a copy, in nanoseconds of the monotonic clock.
struct CopyTiming {
  int64_t begin = 0, end = 0;
};

class CopyEngine final : public Copier {
public:
  /// `copies` is the largest number of copies that a program starts.
  CopyEngine(const LinkInfo &link, int64_t copies);
  ~CopyEngine() override;
  CopyEngine(const CopyEngine &) = delete;
  CopyEngine &operator=(const CopyEngine &) = delete;

  /// Returns an error if the threads could not be started. In that case no copy
  /// may be started.
  const Status &status() const { return status_; }

  void start(const CopyJob &job) override { start(job, nullptr); }
  void wait(int64_t token) override;

  /// Starts a copy. If `timing` is not null, stores the start and end of the
  /// copy in it before wait() for the copy returns.
  void start(const CopyJob &job, CopyTiming *timing);

private:
  struct Order {
    const char *from;
    char *to;
    int64_t bytes;
    int64_t started; ///< The time at which start() was called.
    CopyTiming *timing;
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
  /// Identifies the last copy that was started with a token.
  struct Ticket {
    Channel *channel;
    uint64_t number;
  };

  static void serve(Channel &channel);
  static void carryOut(const Order &order, Channel &channel);

  std::array<Channel, copyDirections> channels_;
  std::vector<Ticket> tickets_; ///< Indexed by token.
  Status status_;
};

/// Forwards copies to a CopyEngine, and records when each copy was executed.
class TimedCopier final : public Copier {
public:
  struct Entry {
    std::size_t command;
    CopyDirection direction;
    CopyTiming timing;
  };

  explicit TimedCopier(CopyEngine &engine) : engine_(engine) {}

  void begin() override { engine_.begin(); }
  void start(const CopyJob &job) override;
  void wait(int64_t token) override { engine_.wait(token); }
  const CopyCounts &counts() const override { return engine_.counts(); }

  /// Returns the copies in the order of their starts. Their timings are
  /// complete when the run has ended.
  const std::deque<Entry> &entries() const { return entries_; }

private:
  CopyEngine &engine_;
  /// A deque does not move its entries when it grows. This is required, because
  /// CopyEngine stores pointers to the timings.
  std::deque<Entry> entries_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COPYENGINE_H
