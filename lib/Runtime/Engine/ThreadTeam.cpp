//===- ThreadTeam.cpp - Thread pool for parallel loops --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Start and end of a loop. The caller writes `loop_`, and then stores a new
// epoch (the number of the loop) with the flag `isOpen` in `gate_`. A worker
// that reads the new epoch enters the loop: one atomic operation checks
// `isOpen` and increments the number of workers inside. A worker inside may
// read `loop_` and takes pieces (ranges of loop indexes) until none remain. The
// caller also takes pieces. When no pieces remain, the caller clears `isOpen`
// and waits until no worker is inside. After that no worker can enter, and the
// caller may write `loop_` again. A worker that finds `isOpen` cleared waits
// for the next epoch. In runOnEach(), all workers count as inside from the
// start.
//
// Wakeup. Before it sleeps, a worker sets `someSleep_` and then reads the epoch
// once more, and it sleeps only while `called_` is the old epoch. The caller
// stores the new epoch in `gate_` and in `called_`, and then reads
// `someSleep_`. The accesses to `someSleep_` and `called_` are sequentially
// consistent. Therefore the worker observes the new epoch, or the caller
// observes `someSleep_`, or both. Conversely, a caller that is about to sleep
// sets `callerSleeps` in `gate_`, which also contains the number of workers
// inside. Therefore the last worker that leaves observes `callerSleeps`, or the
// caller observes that no worker is inside.
//
//===----------------------------------------------------------------------===//

#include "ThreadTeam.h"

#include "Processors.h"

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <optional>
#include <pthread.h>
#include <sched.h>
#include <string>
#include <sys/prctl.h>
#include <system_error>
#include <utility>
#include <xmmintrin.h>

extern "C" {
int omp_get_thread_limit(void);
}

namespace kiln::runtime {

/// The MXCSR bits flush-to-zero and denormals-are-zero.
static constexpr unsigned flushBits = 0x8040;

DenormalsFlushed::DenormalsFlushed() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ | flushBits);
}

DenormalsFlushed::~DenormalsFlushed() { _mm_setcsr(saved_); }

// Flags in the lower half of `gate_`. The lowest 28 bits of `gate_` are the
// number of workers inside the loop.
static constexpr uint32_t isOpen = 1u << 31;
static constexpr uint32_t callerSleeps = 1u << 30;
static constexpr uint32_t isForEach = 1u << 29;
static constexpr uint32_t isLast = 1u << 28;
static constexpr uint32_t insideMask = isLast - 1;

static uint32_t epochOf(uint64_t state) { return uint32_t(state >> 32); }
static uint32_t workersInside(uint64_t state) {
  return uint32_t(state) & insideMask;
}

/// Maximum number of blocks of loop indexes in the part of one thread. The
/// counters in Part::taken have 16 bits.
static constexpr int64_t mostBlocks = 0xffff;

/// The team and the thread index of the loop body that this OS thread executes.
static thread_local struct {
  const ThreadTeam *team = nullptr;
  int thread = 0;
} inside;

ThreadTeam::ThreadTeam(int size)
    : size_(std::clamp(omp_get_thread_limit(), 1, size)),
      policy_(chooseWaitPolicy(size_, availableProcessors(),
                               std::getenv("OMP_WAIT_POLICY"),
                               std::getenv("GOMP_SPINCOUNT"))),
      parts_(std::size_t(size_)) {
  // New threads inherit the signal mask. Block all signals while starting
  // threads, so that the threads block them too.
  sigset_t all, before;
  sigfillset(&all);
  pthread_sigmask(SIG_SETMASK, &all, &before);
  workers_.reserve(std::size_t(size_));
  try {
    for (int thread = 1; thread < size_; ++thread) {
      workers_.emplace_back([this, thread] { serve(thread); });
      if (std::optional<cpu_set_t> set = processorsOfThread(thread, size_))
        pthread_setaffinity_np(workers_.back().native_handle(), sizeof(*set),
                               &*set);
    }
  } catch (const std::system_error &error) {
    status_ = Status::error("cannot start " + std::to_string(size_) +
                            " threads: " + error.code().message() +
                            "; allow this process more threads or more memory "
                            "(ulimit -u, -v), or pass a smaller --threads");
    size_ = int(workers_.size()) + 1;
  }
  pthread_sigmask(SIG_SETMASK, &before, nullptr);
  // Wait until the threads have started, so that the allocations of their
  // startup are not counted in a loop.
  forEachThread([](int) {});
}

ThreadTeam::~ThreadTeam() {
  begin(isLast);
  for (std::thread &worker : workers_)
    worker.join();
}

uint32_t ThreadTeam::begin(uint32_t flags) {
  uint32_t epoch = epochOf(gate_.load(std::memory_order_relaxed)) + 1;
  callersProcessor_.store(sched_getcpu(), std::memory_order_relaxed);
  gate_.store(uint64_t(epoch) << 32 | flags, std::memory_order_release);
  called_.store(epoch);
  if (someSleep_.load() && someSleep_.exchange(false))
    wakeSleepers(called_);
  return epoch;
}

void ThreadTeam::waitForWorkers() {
  auto isAlone = [this] {
    return workersInside(gate_.load(std::memory_order_acquire)) == 0;
  };
  while (!spinUntil(policy_, isAlone)) {
    uint32_t times = finished_.load();
    if (workersInside(gate_.fetch_or(callerSleeps)) != 0)
      sleepWhileEqual(finished_, times);
  }
}

void ThreadTeam::serve(int thread) {
  prctl(PR_SET_NAME, "kiln-worker");
  _mm_setcsr(_mm_getcsr() | flushBits);
  inside = {this, thread};
  ProcessorShare share;
  share.begin();
  uint32_t seen = 0;
  uint64_t state = 0;
  auto isNew = [&] {
    state = gate_.load();
    return epochOf(state) != seen;
  };
  for (;;) {
    if (!spinUntil(policy_, isNew)) {
      for (;;) {
        someSleep_.store(true);
        if (isNew())
          break;
        sleepWhileEqual(called_, seen);
      }
      share.begin();
      leaveCallersProcessor();
    }
    if (state & isLast)
      return;
    seen = epochOf(state);
    if (!enter(state))
      continue;
    if (state & isForEach)
      loop_.body(loop_.context, thread, thread + 1, thread);
    else
      work(thread, seen, &share);
    leave();
    if (share.isSpent()) {
      share.giveUp();
      leaveCallersProcessor();
      // If the loop is still open, let this worker enter it again.
      if (state & isOpen)
        seen -= 1;
    }
  }
}

/// Counts this worker as inside the loop whose epoch `state` contains, unless
/// runOnEach() has counted it already. Returns false if that loop has ended.
bool ThreadTeam::enter(uint64_t state) {
  uint64_t found = state;
  while (epochOf(found) == epochOf(state) && (found & isOpen))
    if (gate_.compare_exchange_weak(found, found + 1))
      return true;
  return epochOf(found) == epochOf(state) && (found & isForEach);
}

/// Moves this worker to another processor if it runs on the processor of the
/// caller. The scheduler may wake a thread on the processor of the thread that
/// woke it. Without the move, caller and worker would then run alternately on
/// one processor.
void ThreadTeam::leaveCallersProcessor() const {
  int processor = callersProcessor_.load(std::memory_order_relaxed);
  if (sched_getcpu() == processor)
    leaveProcessor(processor);
}

void ThreadTeam::leave() {
  uint64_t state = gate_.fetch_sub(1);
  if (workersInside(state) != 1 || !(state & callerSleeps))
    return;
  finished_.fetch_add(1);
  wakeSleepers(finished_);
}

/// Takes half of the remaining blocks of loop indexes from the part of thread
/// `owner`, from the front or from the back of the part. Returns false if no
/// blocks remain.
bool ThreadTeam::take(int owner, bool fromFront, uint32_t epoch, Piece &piece) {
  int64_t blocks = (loop_.count + loop_.block - 1) / loop_.block;
  int64_t first = blocks * owner / size_;
  int64_t last = blocks * (owner + 1) / size_;
  std::atomic<uint64_t> &taken = parts_[std::size_t(owner)].taken;
  uint64_t before = taken.load(std::memory_order_relaxed);
  for (;;) {
    uint64_t now = epochOf(before) == epoch ? before : uint64_t(epoch) << 32;
    int64_t front = int64_t(now >> 16 & mostBlocks);
    int64_t back = int64_t(now & mostBlocks);
    int64_t left = last - first - front - back;
    if (left <= 0)
      return false;
    int64_t count = (left + 1) / 2;
    now += fromFront ? uint64_t(count) << 16 : uint64_t(count);
    if (!taken.compare_exchange_weak(before, now, std::memory_order_relaxed))
      continue;
    int64_t begin = fromFront ? first + front : last - back - count;
    piece.begin = begin * loop_.block;
    piece.end = std::min((begin + count) * loop_.block, loop_.count);
    return true;
  }
}

void ThreadTeam::work(int thread, uint32_t epoch, ProcessorShare *share) {
  Piece piece;
  for (int i = 0; i < size_; ++i) {
    int owner = (thread + i) % size_;
    while (take(owner, i == 0, epoch, piece)) {
      loop_.body(loop_.context, piece.begin, piece.end, thread);
      if (share && share->isSpent())
        return;
    }
  }
}

void ThreadTeam::run(int64_t count, Body body, void *context) {
  if (count <= 0)
    return;
  if (inside.team == this) {
    body(context, 0, count, inside.thread);
    return;
  }
  std::lock_guard<std::mutex> lock(callers_);
  auto before = std::exchange(inside, {this, 0});
  if (count == 1 || size_ == 1) {
    body(context, 0, count, 0);
    inside = before;
    return;
  }
  int64_t blockParts = mostBlocks * size_;
  loop_ = {body, context, count, (count + blockParts - 1) / blockParts};
  work(0, begin(isOpen), nullptr);
  uint64_t state = gate_.fetch_and(~uint64_t(isOpen));
  if (workersInside(state) != 0)
    waitForWorkers();
  inside = before;
}

void ThreadTeam::runOnEach(Body body, void *context) {
  std::lock_guard<std::mutex> lock(callers_);
  auto before = std::exchange(inside, {this, 0});
  loop_ = {body, context, size_, 1};
  begin(isForEach | uint32_t(workers_.size()));
  body(context, 0, 1, 0);
  waitForWorkers();
  inside = before;
}

} // namespace kiln::runtime
