//===- GpuClock.cpp - Timing of work on a stream --------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuClock.h"

#include <algorithm>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime::rates;
using namespace kiln::runtime;
using namespace kiln;

/// The duration of a sample, chosen so that the overhead of its two events is
/// negligible.
static constexpr double sampleSeconds = 5e-3;
static constexpr int64_t mostCalls = 1000;

Result<GpuClock> GpuClock::create(const Driver &driver, StreamHandle stream) {
  GpuClock clock(driver, stream);
  for (Event *event : {&clock.begin_, &clock.end_}) {
    EventHandle handle = nullptr;
    Status status =
        driver.call(driver.api().cuEventCreate, &handle, eventDefault);
    if (!status.ok())
      return status;
    *event = Event(handle, driver.api().cuEventDestroy_v2);
  }
  return Result<GpuClock>(std::move(clock));
}

Result<double> GpuClock::once(const std::function<Status()> &queue,
                              int64_t calls) const {
  const DriverApi &api = driver_->api();
  Status status = driver_->call(api.cuEventRecord, begin_.get(), stream_);
  for (int64_t i = 0; i < calls && status.ok(); ++i)
    status = queue();
  if (status.ok())
    status = driver_->call(api.cuEventRecord, end_.get(), stream_);
  if (status.ok())
    status = driver_->call(api.cuStreamSynchronize, stream_);
  float milliseconds = 0;
  if (status.ok())
    status = driver_->call(api.cuEventElapsedTime, &milliseconds, begin_.get(),
                           end_.get());
  if (!status.ok())
    return status;
  return 1e-3 * double(milliseconds) / double(calls);
}

Result<double> GpuClock::secondsOf(const std::function<Status()> &queue,
                                   int64_t samples) const {
  Result<double> first = once(queue, 1);
  if (first.ok())
    first = once(queue, 1);
  if (!first.ok())
    return first;
  int64_t calls = mostCalls;
  if (*first > 0)
    calls = std::clamp<int64_t>(int64_t(sampleSeconds / *first), 1, mostCalls);
  std::vector<double> seconds;
  for (int64_t i = 0; i < samples; ++i) {
    Result<double> sample = once(queue, calls);
    if (!sample.ok())
      return sample;
    seconds.push_back(*sample);
  }
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}
