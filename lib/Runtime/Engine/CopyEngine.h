//===- CopyEngine.h - Threads that execute asynchronous copies --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One thread per direction emulates the link between the device and the host
// arena. It executes the copies of its direction in the order of their starts.
// If the link has a rate, a copy of n bytes that starts at time t on an idle
// link completes at t + n / rate, and the thread sleeps until then. On a busy
// link, t is the due time of the previous copy and not the current time, so
// that late wakeups do not accumulate. Starting a copy and waiting for it
// allocate no memory.
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
  /// `copies` is the maximum number of copies of any program.
  CopyEngine(const LinkInfo &link, int64_t copies);
  ~CopyEngine() override;
  CopyEngine(const CopyEngine &) = delete;
  CopyEngine &operator=(const CopyEngine &) = delete;

  /// Fails if the threads could not be started; then no copy may be started.
  const Status &status() const { return status_; }

  void start(const CopyJob &job) override { start(job, nullptr); }
  void wait(int64_t token) override;

  /// Starts a copy. Unless `timing` is null, it is written before the wait
  /// returns.
  void start(const CopyJob &job, CopyTiming *timing);

private:
  struct Order {
    const char *from;
    char *to;
    int64_t bytes;
    int64_t started; ///< Time of the call of start().
    CopyTiming *timing;
  };
  /// The queue of one direction. `started` counts copies passed to start(), and
  /// `done` counts completed copies; order i is stored in ring[i % size]. The
  /// ring needs only one entry per token: all unfinished orders have different
  /// tokens, because a token is only reused after a wait for its copy.
  struct Channel {
    std::vector<Order> ring;
    double bytesPerSecond = 0;
    std::atomic<uint64_t> started{0}, done{0};
    std::mutex mutex;
    std::condition_variable given, carriedOut;
    bool serving = false, stopping = false; ///< Protected by the mutex.
    /// Due time of the last copy; only the thread accesses it.
    int64_t linkFree = 0;
    std::thread thread;
  };
  /// The order that a token refers to.
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

/// Forwards copies to an engine and records when each was executed.
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

  /// Returns the copies in the order of their starts. Complete after the end of
  /// the run.
  const std::deque<Entry> &entries() const { return entries_; }

private:
  CopyEngine &engine_;
  std::deque<Entry> entries_; ///< A deque, so that entries never move.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COPYENGINE_H
