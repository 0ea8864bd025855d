//===- ThreadTeam.cpp - One team of threads -------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ThreadTeam.h"

#include <xmmintrin.h>

extern "C" {
void GOMP_parallel(void (*body)(void *), void *data, unsigned threads,
                   unsigned flags);
int omp_get_thread_num(void);
int omp_get_num_threads(void);
void omp_set_dynamic(int enabled);
}

namespace kiln {

/// Flush-to-zero and denormals-are-zero.
static constexpr unsigned flushBits = 0x8040;

DenormalsFlushed::DenormalsFlushed() : saved_(_mm_getcsr()) {
  _mm_setcsr(saved_ | flushBits);
}

DenormalsFlushed::~DenormalsFlushed() { _mm_setcsr(saved_); }

namespace {
struct Region {
  ThreadTeam::Body body;
  void *context;
  int64_t count;
};
} // namespace

static void runPart(void *data) {
  auto &region = *static_cast<Region *>(data);
  // The runtime may give fewer threads than asked for (OMP_THREAD_LIMIT).
  int64_t threads = omp_get_num_threads();
  int64_t thread = omp_get_thread_num();
  int64_t begin = region.count * thread / threads;
  int64_t end = region.count * (thread + 1) / threads;
  if (begin < end)
    region.body(region.context, begin, end, int(thread));
}

static void flushInWorker(void *) {
  if (omp_get_thread_num() != 0)
    _mm_setcsr(_mm_getcsr() | flushBits);
}

ThreadTeam::ThreadTeam(int size) : size_(size) {
  omp_set_dynamic(0);
  // The threads live as long as the team keeps its size, so that this holds for
  // all later regions. The calling thread has DenormalsFlushed instead.
  if (size_ > 1)
    GOMP_parallel(flushInWorker, nullptr, unsigned(size_), 0);
}

void ThreadTeam::run(int64_t count, Body body, void *context) {
  if (count <= 0)
    return;
  if (count == 1 || size_ == 1) {
    body(context, 0, count, 0);
    return;
  }
  Region region{body, context, count};
  GOMP_parallel(runPart, &region, unsigned(size_), 0);
}

} // namespace kiln
