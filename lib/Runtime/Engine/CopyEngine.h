//===- CopyEngine.h - Copies between the arenas, on threads -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One thread per direction plays the link between the device and the host
// arena. It carries out one copy after the other, in the order of their starts.
// Where the link has a pace, a copy of n bytes that is started at time t on a
// free link is done at t + n / pace, and the thread sleeps meanwhile. Due times
// follow from each other, not from the clock, so that oversleeping does not add
// up. Starting and waiting allocate nothing.
//
// The threads take no signals, and are no part of the team of ThreadTeam.h.
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

/// When a copy was carried out: nanoseconds of the monotonic clock.
struct CopyTiming {
  int64_t begin = 0, end = 0;
};

class CopyEngine final : public Copier {
public:
  /// `copies`: at least as many as any program has.
  CopyEngine(const LinkInfo &link, int64_t copies);
  ~CopyEngine() override;
  CopyEngine(const CopyEngine &) = delete;
  CopyEngine &operator=(const CopyEngine &) = delete;

  /// Whether its threads could be started: otherwise nothing may be copied.
  const Status &status() const { return status_; }

  void start(const CopyJob &job) override { start(job, nullptr); }
  void wait(int64_t token) override;

  /// As start(); `timing`, unless null, is written before the wait returns.
  void start(const CopyJob &job, CopyTiming *timing);

private:
  struct Order {
    const char *from;
    char *to;
    int64_t bytes;
    int64_t started; ///< When start() was called.
    CopyTiming *timing;
  };
  /// The orders of one direction. `started` counts those given by start(),
  /// `done` those carried out; order i is in ring[i % size]. The size is that
  /// of the tokens: every order from the first that is not done on has a token
  /// of its own, because waiting for a later one means that it is done.
  struct Channel {
    std::vector<Order> ring;
    double bytesPerSecond = 0;
    std::atomic<uint64_t> started{0}, done{0};
    std::mutex mutex;
    std::condition_variable given, carriedOut;
    bool serving = false, stopping = false; ///< Under the mutex.
    int64_t linkFree = 0; ///< When the last copy was due; the thread's own.
    std::thread thread;
  };
  /// The order that belongs to a token.
  struct Ticket {
    Channel *channel;
    uint64_t number;
  };

  static void serve(Channel &channel);
  static void carryOut(const Order &order, Channel &channel);

  std::array<Channel, copyDirections> channels_;
  std::vector<Ticket> tickets_; ///< By token.
  Status status_;
};

/// As the engine that it is given, but notes when each copy was carried out.
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

  /// In the order of their starts; complete when the run has ended.
  const std::deque<Entry> &entries() const { return entries_; }

private:
  CopyEngine &engine_;
  std::deque<Entry> entries_; ///< Entries never move.
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_COPYENGINE_H
