//===- ThreadTeam.h - One team of threads -----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A parallel loop over the process's one OpenMP team (libgomp, the runtime that
// OpenBLAS's OpenMP build also uses: two pools of threads would fight for the
// cores). The range is split into one contiguous part per thread; what is
// computed must not depend on where it is split. Every thread flushes
// denormals.
//
// libgomp is called by its stable ABI rather than through pragmas: clang emits
// no calls for it, so that pragmas would silently run on one thread.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_THREADTEAM_H
#define KILN_LIB_RUNTIME_ENGINE_THREADTEAM_H

#include <cstdint>
#include <utility>

namespace kiln {

class ThreadTeam {
public:
  /// body(begin, end, thread): part of a range, thread in [0, size()).
  using Body = void (*)(void *context, int64_t begin, int64_t end, int thread);

  /// Starts `size` threads, this one included.
  explicit ThreadTeam(int size);

  int size() const { return size_; }

  /// Runs `body` over [0, count) and returns when all of it is done. Runs on
  /// the calling thread alone when there is at most one piece.
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

private:
  int size_;
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

} // namespace kiln

#endif // KILN_LIB_RUNTIME_ENGINE_THREADTEAM_H
