//===- ThreadTeam.h - Thread pool for parallel loops ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs parallel loops on a team of threads that is started once. The indexes of
// a loop are split into contiguous parts, one per thread, so that a thread
// reuses cached results of its previous loop. A thread takes pieces from the
// front of its own part. When its part is empty, the thread steals pieces from
// the back of other parts. Therefore a loop does not wait for a thread that is
// asleep or preempted, unless that thread has begun a piece. The results of a
// body must not depend on the thread that computes a piece or on the boundaries
// of pieces.
//
// Waiting threads spin for a bounded time and then sleep: see WaitPolicy.h.
// Workers block all signals and flush denormals. A loop allocates no memory.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_THREADTEAM_H
#define KILN_LIB_RUNTIME_ENGINE_THREADTEAM_H

#include "ProcessorShare.h"
#include "WaitPolicy.h"
#include "kiln/Support/Status.h"

#include <atomic>
#include <cstdint>
#include <mutex>
#include <thread>
#include <type_traits>
#include <vector>

namespace kiln::runtime {

class ThreadTeam {
public:
  /// body(begin, end, thread) executes some indexes of a loop, with thread in
  /// [0, size()). No two concurrent calls have the same thread; one thread may
  /// receive several calls.
  using Body = void (*)(void *context, int64_t begin, int64_t end, int thread);

  /// Starts `size` - 1 threads, or fewer if OMP_THREAD_LIMIT is lower. The
  /// thread that runs a loop is thread 0.
  explicit ThreadTeam(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam &) = delete;
  ThreadTeam &operator=(const ThreadTeam &) = delete;

  /// Fails if not all threads could be started. The team then consists of the
  /// threads that have been started.
  const Status &status() const { return status_; }

  int size() const { return size_; }

  /// Calls `body` for the indexes [0, count) and returns after all calls have
  /// completed. If `count` or the size of the team is 1, `body` runs on the
  /// calling thread. Loops of several callers run one after another. A nested
  /// loop runs on its calling thread.
  void run(int64_t count, Body body, void *context);

  /// Calls run() for a callable (begin, end, thread).
  template <typename Callable> void forEachPart(int64_t count, Callable &&f) {
    run(
        count,
        [](void *context, int64_t begin, int64_t end, int thread) {
          (*static_cast<std::remove_reference_t<Callable> *>(context))(
              begin, end, thread);
        },
        &f);
  }

  /// Runs body(thread, thread + 1, thread) once on every thread of the team,
  /// and waits for all of them. Used for per-thread initialization and
  /// measurements. Must not be called from a body.
  void runOnEach(Body body, void *context);

  /// Calls runOnEach() for a callable (thread).
  template <typename Callable> void forEachThread(Callable &&f) {
    runOnEach(
        [](void *context, int64_t, int64_t, int thread) {
          (*static_cast<std::remove_reference_t<Callable> *>(context))(thread);
        },
        &f);
  }

private:
  /// The remaining blocks of a thread's part, for the loop of one epoch. The
  /// first thread that takes a piece of the part in a new epoch resets the
  /// counters, so that starting a loop does not write to cache lines of other
  /// threads.
  struct alignas(64) Part {
    /// Bits 63..32: the epoch. Bits 31..16 and 15..0: the number of blocks
    /// taken from the front and from the back.
    std::atomic<uint64_t> taken{0};
  };
  /// The current loop. Written only while no worker can read it.
  struct Loop {
    Body body = nullptr;
    void *context = nullptr;
    int64_t count = 0;
    int64_t block = 1; ///< Indexes per block.
  };

  struct Piece {
    int64_t begin, end;
  };

  void serve(int thread);
  bool enter(uint64_t state);
  void leave();
  void leaveCallersProcessor() const;
  /// Executes pieces until none are left or `share->isSpent()`. `share` may be
  /// null.
  void work(int thread, uint32_t epoch, ProcessorShare *share);
  bool take(int owner, bool fromFront, uint32_t epoch, Piece &piece);
  /// Starts a loop and returns its epoch.
  uint32_t begin(uint32_t flags);
  void waitForWorkers();

  int size_;
  WaitPolicy policy_;
  Status status_;
  std::vector<Part> parts_;
  Loop loop_;
  std::mutex callers_;
  /// Bits 63..32: the epoch, which counts loops. For the other bits see
  /// ThreadTeam.cpp.
  alignas(64) std::atomic<uint64_t> gate_{0};
  /// A copy of the epoch, on which workers sleep, and a flag that is set if
  /// some workers may be asleep.
  alignas(64) std::atomic<uint32_t> called_{0};
  std::atomic<bool> someSleep_{false};
  /// The processor on which the caller started the loop.
  std::atomic<int> callersProcessor_{-1};
  /// Counts the loops whose last worker left while the caller slept.
  alignas(64) std::atomic<uint32_t> finished_{0};
  std::vector<std::thread> workers_;
};

/// Flushes denormals in the calling thread during the lifetime of this object:
/// denormal results and operands become zero (FTZ and DAZ). The workers of a
/// team always flush denormals.
class DenormalsFlushed {
public:
  DenormalsFlushed();
  ~DenormalsFlushed();
  DenormalsFlushed(const DenormalsFlushed &) = delete;
  DenormalsFlushed &operator=(const DenormalsFlushed &) = delete;

private:
  unsigned saved_;
};

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_THREADTEAM_H
