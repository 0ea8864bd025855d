//===- ThreadTeam.h - Thread pool for parallel loops ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs parallel loops on a team of threads that is started once. The indexes of
// a loop are split into contiguous parts, one per thread. In consecutive loops
// over the same data, a thread therefore receives mostly data that may still be
// in its cache. A thread takes pieces (ranges of indexes) from the front of its
// own part. When its part is empty, it steals pieces from the back of the parts
// of other threads. Therefore a loop waits for a sleeping or preempted thread
// only if that thread has begun a piece. The results of a body must not depend
// on which thread executes a piece or on the boundaries of pieces.
//
// A waiting thread spins for a bounded time and then sleeps (see WaitPolicy.h).
// Workers block all signals and flush denormals. Running a loop allocates no
// memory.
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
  /// body(context, begin, end, thread) executes the indexes [begin, end) of a
  /// loop, where 0 <= thread < size(). `thread` differs between concurrent
  /// calls. A loop may call the body several times with the same `thread`.
  using Body = void (*)(void *context, int64_t begin, int64_t end, int thread);

  /// Creates a team of `size` threads, or of OMP_THREAD_LIMIT threads if that
  /// is lower. The calling thread of a loop is thread 0 of the team; this
  /// constructor starts all others.
  explicit ThreadTeam(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam &) = delete;
  ThreadTeam &operator=(const ThreadTeam &) = delete;

  /// Returns an error if a thread could not be started. In that case the team
  /// consists of the threads that were started.
  const Status &status() const { return status_; }

  int size() const { return size_; }

  /// Executes the indexes [0, count) by calls of `body`, and returns after all
  /// calls have completed. If `count` or the size of the team is 1, only the
  /// calling thread executes indexes. If several threads call run() at the same
  /// time, their loops run one after another. A loop that is started in a body
  /// runs on the thread of that body.
  void run(int64_t count, Body body, void *context);

  /// Calls run() with a body that calls f(begin, end, thread).
  template <typename Callable> void forEachPart(int64_t count, Callable &&f) {
    run(
        count,
        [](void *context, int64_t begin, int64_t end, int thread) {
          (*static_cast<std::remove_reference_t<Callable> *>(context))(
              begin, end, thread);
        },
        &f);
  }

  /// Calls body(context, thread, thread + 1, thread) once on every thread of
  /// the team, and waits for all calls. Used for per-thread initialization and
  /// for measurements. Must not be called from a body.
  void runOnEach(Body body, void *context);

  /// Calls runOnEach() with a body that calls f(thread).
  template <typename Callable> void forEachThread(Callable &&f) {
    runOnEach(
        [](void *context, int64_t, int64_t, int thread) {
          (*static_cast<std::remove_reference_t<Callable> *>(context))(thread);
        },
        &f);
  }

private:
  /// Each thread has a part of the indexes of a loop. Counts the blocks of
  /// indexes that have been taken from the part of one thread in the loop that
  /// the epoch (the number of the loop) identifies. The counters are reset
  /// when the first blocks of a new epoch are taken from the part, and not when
  /// the loop starts. Therefore the thread that starts a loop writes to no
  /// cache line of another thread.
  struct alignas(64) Part {
    /// Bits 63 to 32: the epoch. Bits 31 to 16: the number of blocks taken from
    /// the front. Bits 15 to 0: the number of blocks taken from the back.
    std::atomic<uint64_t> taken{0};
  };
  /// A loop. The caller writes loop_ only while no worker can read it.
  struct Loop {
    Body body = nullptr;
    void *context = nullptr;
    int64_t count = 0;
    int64_t block = 1; ///< Number of indexes per block.
  };

  struct Piece {
    int64_t begin, end;
  };

  void serve(int thread);
  bool enter(uint64_t state);
  void leave();
  void leaveCallersProcessor() const;
  /// Executes pieces until none remain or, if `share` is not null, until
  /// `share->isSpent()` is true.
  void work(int thread, uint32_t epoch, ProcessorShare *share);
  bool take(int owner, bool fromFront, uint32_t epoch, Piece &piece);
  /// Starts a loop and returns its epoch, the number of the loop.
  uint32_t begin(uint32_t flags);
  void waitForWorkers();

  int size_;
  WaitPolicy policy_;
  Status status_;
  std::vector<Part> parts_;
  Loop loop_;
  std::mutex callers_;
  /// Bits 63 to 32: the epoch, which is the number of started loops. Bits 31 to
  /// 0: see ThreadTeam.cpp.
  alignas(64) std::atomic<uint64_t> gate_{0};
  /// `called_` is a copy of the epoch. Workers sleep until `called_` changes.
  /// `someSleep_` is set if some workers may be asleep.
  alignas(64) std::atomic<uint32_t> called_{0};
  std::atomic<bool> someSleep_{false};
  /// The processor on which the caller ran when it started the loop.
  std::atomic<int> callersProcessor_{-1};
  /// The number of loops whose last worker left the loop while the caller
  /// slept.
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
