//===- ThreadTeam.h - One team of threads -----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parallel loops over a team of threads that is started once. The indexes of a
// loop are shared out in contiguous parts, one per thread, so that a thread
// finds in its cache what it computed in the loop before. A thread takes its
// part in pieces from the front; when none is left it takes pieces from the
// back of other parts. So nobody waits for a thread that has not begun, be it
// asleep or on a processor that another process uses, but only for pieces that
// are being computed. What is computed must not depend on who computes it, nor
// on where a part is cut.
//
// Waiting threads spin for a bounded time and then sleep: see WaitPolicy.h. The
// workers take no signals and flush denormals. A loop allocates nothing.
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
  /// body(begin, end, thread): some indexes of a loop, thread in [0, size()).
  /// No two calls at a time have the same thread; one thread may get several.
  using Body = void (*)(void *context, int64_t begin, int64_t end, int thread);

  /// Starts `size` - 1 threads: whoever runs a loop is thread 0. There are
  /// fewer where OMP_THREAD_LIMIT says so.
  explicit ThreadTeam(int size);
  ~ThreadTeam();
  ThreadTeam(const ThreadTeam &) = delete;
  ThreadTeam &operator=(const ThreadTeam &) = delete;

  /// Reports whether all threads could be started. If not, the others do
  /// everything.
  const Status &status() const { return status_; }

  int size() const { return size_; }

  /// Runs `body` over [0, count) and returns when all of it is done. Runs on
  /// the calling thread alone when there is at most one piece. Loops of several
  /// callers run one after the other. A loop that is run from a body stays on
  /// its thread.
  void run(int64_t count, Body body, void *context);

  /// As run(), for a callable (begin, end, thread).
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
  /// and waits for the last one. For what belongs to a thread, and for
  /// measurements. Not to be called from a body.
  void runOnEach(Body body, void *context);

  /// As runOnEach(), for a callable (thread).
  template <typename Callable> void forEachThread(Callable &&f) {
    runOnEach(
        [](void *context, int64_t, int64_t, int thread) {
          (*static_cast<std::remove_reference_t<Callable> *>(context))(thread);
        },
        &f);
  }

private:
  /// What is left of a thread's part, for the loop of one epoch. Its owner
  /// resets it with the first piece that is taken in a new epoch, so that
  /// starting a loop writes nothing that lies in the caches of others.
  struct alignas(64) Part {
    /// Bits 63..32: the epoch. 31..16 and 15..0: the blocks that were taken
    /// from the front and from the back.
    std::atomic<uint64_t> taken{0};
  };
  /// The loop that runs. Written while no worker can read it.
  struct Loop {
    Body body = nullptr;
    void *context = nullptr;
    int64_t count = 0;
    int64_t block = 1; ///< Indexes that are taken together.
  };

  struct Piece {
    int64_t begin, end;
  };

  void serve(int thread);
  bool enter(uint64_t state);
  void leave();
  void leaveCallersProcessor() const;
  /// Takes pieces until there are none or, unless `share` is null, it is spent.
  void work(int thread, uint32_t epoch, ProcessorShare *share);
  bool take(int owner, bool fromFront, uint32_t epoch, Piece &piece);
  /// Returns the epoch of the loop that begins.
  uint32_t begin(uint32_t flags);
  void waitForWorkers();

  int size_;
  WaitPolicy policy_;
  Status status_;
  std::vector<Part> parts_;
  Loop loop_;
  std::mutex callers_;
  /// Bits 63..32: the epoch, which counts loops. Others: see ThreadTeam.cpp.
  alignas(64) std::atomic<uint64_t> gate_{0};
  /// The epoch again, on which workers sleep, and whether any may sleep.
  alignas(64) std::atomic<uint32_t> called_{0};
  std::atomic<bool> someSleep_{false};
  /// The processor on which the caller began the loop.
  std::atomic<int> callersProcessor_{-1};
  /// Counts the times that the last worker left a loop whose caller sleeps.
  alignas(64) std::atomic<uint32_t> finished_{0};
  std::vector<std::thread> workers_;
};

/// While it exists, the calling thread flushes denormals: results are zero
/// instead (FTZ), operands count as zero (DAZ). As in every thread of a team.
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
