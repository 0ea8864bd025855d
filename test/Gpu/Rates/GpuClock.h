//===- GpuClock.h - Timing of work on a stream ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_GPU_RATES_GPUCLOCK_H
#define KILN_TEST_GPU_RATES_GPUCLOCK_H

#include "Gpu.h"

#include <functional>
#include <vector>

namespace kiln::runtime::rates {

/// Measures the time of work on a stream with two events.
class GpuClock {
public:
  static Result<GpuClock> create(const cuda::Driver &driver,
                                 cuda::StreamHandle stream);

  /// Returns the time in seconds of one call of `queue`, which queues work on
  /// the stream. The result is the median of `samples` samples. A sample times
  /// several calls, which run for a few milliseconds together. Warm-up calls
  /// are not timed.
  Result<double> secondsOf(const std::function<Status()> &queue,
                           int64_t samples) const;

private:
  GpuClock(const cuda::Driver &driver, cuda::StreamHandle stream)
      : driver_(&driver), stream_(stream) {}
  Result<double> once(const std::function<Status()> &queue,
                      int64_t calls) const;

  const cuda::Driver *driver_;
  cuda::StreamHandle stream_;
  cuda::Event begin_, end_;
};

} // namespace kiln::runtime::rates

#endif // KILN_TEST_GPU_RATES_GPUCLOCK_H
