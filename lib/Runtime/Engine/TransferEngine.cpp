//===- TransferEngine.cpp - Threads that execute transfers ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "TransferEngine.h"

#include "Collectives.h"
#include "Processors.h"

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <immintrin.h>
#include <optional>
#include <pthread.h>
#include <sys/prctl.h>
#include <system_error>

namespace kiln::runtime {

/// Bytes copied between two readings of the clock.
static constexpr int64_t chunkBytes = 256 * 1024;
/// If a copy is ahead of the emulated link by fewer nanoseconds than
/// shortestSleep, its thread continues without sleeping, because a short sleep
/// may last longer than requested.
static constexpr int64_t shortestSleep = 200'000;
/// Maximum duration of a copy in nanoseconds: a month. The limit keeps due
/// times from overflowing.
static constexpr double longestCopy = 2.6e15;
/// Number of times that a waiting thread polls Channel::done before it sleeps.
/// The polls take a few microseconds.
static constexpr int spins = 500;

static void sleepUntil(int64_t time) {
  timespec due;
  due.tv_sec = time / 1'000'000'000;
  due.tv_nsec = time % 1'000'000'000;
  while (clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &due, nullptr) ==
         EINTR)
    ;
}

TransferEngine::TransferEngine(const LinkInfo &link, int64_t tokens,
                               bool hasCopies, World *world)
    : world_(world), tickets_(std::size_t(tokens)) {
  if (!hasCopies)
    return;
  channels_[std::size_t(TransferKind::CopyOut)].bytesPerSecond =
      link.outBytesPerSecond;
  channels_[std::size_t(TransferKind::CopyIn)].bytesPerSecond =
      link.inBytesPerSecond;
  std::optional<cpu_set_t> processors = processorsOfPlaces();
  // New threads inherit the signal mask. Block all signals while starting
  // threads, so that the threads block them too.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  try {
    for (Channel &channel : channels_) {
      channel.ring.resize(std::size_t(std::max<int64_t>(tokens, 1)));
      channel.thread = std::thread([&channel] { serve(channel); });
      if (processors)
        pthread_setaffinity_np(channel.thread.native_handle(),
                               sizeof(*processors), &*processors);
    }
  } catch (const std::system_error &error) {
    status_ = Status::error(
        "cannot start the threads that copy to and from the host arena: " +
        error.code().message() +
        "; allow this process more threads or more memory (ulimit -u, -v)");
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // Wait until the threads have started, so that the allocations of their
  // startup are not counted in a step.
  for (Channel &channel : channels_) {
    if (!channel.thread.joinable())
      continue;
    std::unique_lock<std::mutex> lock(channel.mutex);
    channel.carriedOut.wait(lock, [&] { return channel.serving; });
  }
}

TransferEngine::~TransferEngine() {
  for (Channel &channel : channels_) {
    if (!channel.thread.joinable())
      continue;
    {
      std::lock_guard<std::mutex> lock(channel.mutex);
      channel.stopping = true;
    }
    channel.given.notify_one();
    channel.thread.join();
  }
}

void TransferEngine::begin() {
  Transfers::begin();
  sentBefore_ = sentBytes(world_);
}

void TransferEngine::startCollective(const TransferJob &job,
                                     TransferTiming *timing) {
  count(job);
  uint64_t number = 0;
  if (world_) {
    number = world_->begin(job.ofRanks(timing));
  } else {
    int64_t begin = monotonicNanoseconds();
    carryOutAlone(job.ofRanks());
    if (timing)
      *timing = {begin, monotonicNanoseconds()};
  }
  tickets_[std::size_t(job.token)] = {nullptr, number};
}

void TransferEngine::start(const TransferJob &job, TransferTiming *timing) {
  if (job.isCollective())
    return startCollective(job, timing);
  Channel &channel = channels_[std::size_t(job.kind)];
  uint64_t number = channel.started.load(std::memory_order_relaxed);
  channel.ring[number % channel.ring.size()] = {job.from, job.to, job.bytes,
                                                monotonicNanoseconds(), timing};
  tickets_[std::size_t(job.token)] = {&channel, number};
  count(job);
  {
    std::lock_guard<std::mutex> lock(channel.mutex);
    channel.started.store(number + 1, std::memory_order_release);
  }
  channel.given.notify_one();
}

void TransferEngine::wait(int64_t token) {
  const Ticket &ticket = tickets_[std::size_t(token)];
  if (ticket.channel)
    return waitForCopy(ticket);
  if (!world_)
    return;
  int64_t begin = monotonicNanoseconds();
  world_->wait(ticket.number);
  sums_.waitSeconds = sums_.waitSeconds.value_or(0) +
                      double(monotonicNanoseconds() - begin) * 1e-9;
  sums_.sentBytes = sentBytes(world_) - sentBefore_;
}

void TransferEngine::waitForCopy(const Ticket &ticket) {
  Channel &channel = *ticket.channel;
  auto isDone = [&] {
    return channel.done.load(std::memory_order_acquire) > ticket.number;
  };
  if (isDone())
    return;
  int64_t begin = monotonicNanoseconds();
  for (int i = 0; i < spins && !isDone(); ++i)
    _mm_pause();
  if (!isDone()) {
    std::unique_lock<std::mutex> lock(channel.mutex);
    channel.carriedOut.wait(lock, isDone);
  }
  counts_.waitSeconds += double(monotonicNanoseconds() - begin) * 1e-9;
}

void TransferEngine::carryOut(const Order &order, Channel &channel) {
  double nanosecondsPerByte =
      channel.bytesPerSecond > 0 ? 1e9 / channel.bytesPerSecond : 0;
  int64_t begin = order.started;
  if (nanosecondsPerByte > 0)
    begin = std::max(begin, channel.linkFree);
  if (order.timing)
    order.timing->begin = std::max(begin, monotonicNanoseconds());
  int64_t due = begin;
  for (int64_t done = 0; done < order.bytes;) {
    int64_t bytes = std::min(chunkBytes, order.bytes - done);
    std::memcpy(order.to + done, order.from + done, std::size_t(bytes));
    done += bytes;
    if (nanosecondsPerByte == 0)
      continue;
    due = begin +
          int64_t(std::min(double(done) * nanosecondsPerByte, longestCopy));
    int64_t ahead = due - monotonicNanoseconds();
    if (ahead > 0 && (done == order.bytes || ahead > shortestSleep))
      sleepUntil(due);
  }
  channel.linkFree = due;
  if (order.timing)
    order.timing->end = monotonicNanoseconds();
}

void TransferEngine::serve(Channel &channel) {
  prctl(PR_SET_NAME, "kiln-copy");
  // Reduce the timer slack, whose default delays wakeups by up to 50
  // microseconds.
  prctl(PR_SET_TIMERSLACK, 1);
  {
    std::lock_guard<std::mutex> lock(channel.mutex);
    channel.serving = true;
  }
  channel.carriedOut.notify_one();
  for (uint64_t next = 0;; ++next) {
    {
      std::unique_lock<std::mutex> lock(channel.mutex);
      channel.given.wait(lock, [&] {
        return channel.stopping ||
               channel.started.load(std::memory_order_acquire) > next;
      });
      if (channel.stopping)
        return;
    }
    carryOut(channel.ring[next % channel.ring.size()], channel);
    {
      std::lock_guard<std::mutex> lock(channel.mutex);
      channel.done.store(next + 1, std::memory_order_release);
    }
    channel.carriedOut.notify_one();
  }
}

void TimedTransfers::start(const TransferJob &job) {
  entries_.push_back({job.command, job.kind, {}});
  engine_.start(job, &entries_.back().timing);
}

} // namespace kiln::runtime
