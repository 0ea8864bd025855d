//===- CommThread.h - The thread that communicates --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements the communication thread of World.h. Jobs are in a ring buffer:
// `started_` counts the jobs that were begun, and `done_` those that are done.
// Beginning a job and waiting for it allocate no memory.
//
// While a job is not done, the thread polls the transport. It sleeps between
// polls if nothing arrives, first shortly and then longer, because the thread
// shares the processors with the threads that compute. The thread blocks all
// signals.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_COMM_COMMTHREAD_H
#define KILN_LIB_RUNTIME_COMM_COMMTHREAD_H

#include "RingCollective.h"
#include "kiln/Runtime/Comm/World.h"

#include <atomic>
#include <condition_variable>
#include <mutex>
#include <thread>

namespace kiln::runtime {

struct CommJob {
  enum class Kind { Collective, Gather, Fetch };
  Kind kind = Kind::Collective;
  CollectiveJob collective;
  // Gather: each rank contributes `bytes` bytes. `all` has room for the bytes
  // of all ranks and, when the job begins, contains the bytes of this rank.
  char *all = nullptr;
  // Fetch: a rank sends `bytes` bytes to rank 0. Both the sender and rank 0
  // have a job. In the job of the sender, `peer` is 0. In the job of rank 0,
  // `peer` is the sender.
  const char *from = nullptr; ///< Used by the sender.
  char *to = nullptr;         ///< Used by rank 0.
  int peer = 0;
  uint64_t number = 0; ///< The number of earlier World::fetch() calls.
  // Members of gathers and of fetches.
  int64_t bytes = 0;
  const char *what = "";
  Patience patience = Patience::Limited;
};

class CommThread {
public:
  using Open = std::function<Result<std::unique_ptr<Transport>>()>;

  /// Starts the thread, which opens the transport.
  CommThread(const Open &open, const WorldOptions &options);
  /// Closes the transport.
  ~CommThread();

  /// Returns an error if the thread or the transport could not be started. In
  /// that case no job may begin.
  const Status &status() const { return status_; }
  int rank() const { return rank_; }
  int size() const { return size_; }

  /// Must not be called while a job is in progress.
  void reserve(int64_t jobs, char *scratch);
  void restrictTo(const cpu_set_t &processors);
  /// Must not be called while a job is in progress.
  void simulateNetwork(double bytesPerSecond);
  void setStep(int64_t step) { step_.store(step, std::memory_order_relaxed); }
  int64_t step() const { return step_.load(std::memory_order_relaxed); }
  int64_t peerTimeout() const {
    return timeout_.load(std::memory_order_relaxed) / 1'000'000'000;
  }
  void setPeerTimeout(int64_t seconds) {
    timeout_.store(seconds * 1'000'000'000, std::memory_order_relaxed);
  }

  uint64_t begin(const CommJob &job);
  void wait(uint64_t job);
  void fail(const std::string &reason);
  Status failure() const;
  Traffic sent() const;

private:
  /// Waits between two polls of the transport, and measures the time without
  /// progress.
  class Pause;

  void serve(const Open &open);
  /// Waits until more than `next` jobs have begun, or until there is a reason
  /// to stop. Returns an error if another rank has ended in the meantime.
  Status waitForJob(std::unique_lock<std::mutex> &lock, uint64_t next);
  void carryOut(const CommJob &job);
  Status carryOutCollective(const CommJob &job, int tag);
  Status carryOutGather(const CommJob &job, int tag);
  Status carryOutFetch(const CommJob &job, int tag);
  /// Fails if nothing has advanced for too long, or if fail() was called.
  Status checkPeers(const Pause &pause, const CommJob &job) const;
  std::string titleOf(const CommJob &job) const;
  /// Records a failure, and aborts the run on all ranks unless `transport` is
  /// null. If WorldOptions::endsProcess is true, also prints the failure and
  /// ends this process.
  void end(const std::string &message, Transport *transport);
  [[noreturn]] void endAlone(const std::string &message);

  WorldOptions options_;
  Status status_;
  int rank_ = 0, size_ = 1;
  std::atomic<int64_t> step_{0}, timeout_;
  std::unique_ptr<Transport> transport_; ///< Used by the thread only.
  char *scratch_ = nullptr;
  RingCollective ring_;
  /// The number of earlier jobs in which all ranks take part. Used by the
  /// thread only.
  uint64_t commonJobs_ = 0;
  std::vector<CommJob> jobs_;
  std::atomic<uint64_t> started_{0}, done_{0};
  /// The time at which the thread last polled the transport, in nanoseconds.
  std::atomic<int64_t> polled_{0};
  std::array<std::atomic<int64_t>, trafficKinds> sent_ = {};
  std::atomic<bool> failing_{false};

  mutable std::mutex mutex_;
  std::condition_variable given_, carriedOut_;
  // `mutex_` protects these members.
  bool ready_ = false, stopping_ = false;
  std::string reason_; ///< The argument of fail().
  Status failure_;

  std::thread thread_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_COMM_COMMTHREAD_H
