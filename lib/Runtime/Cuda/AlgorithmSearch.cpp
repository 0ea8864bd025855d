//===- AlgorithmSearch.cpp - Timed search for matmul algorithms -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "AlgorithmSearch.h"

#include <algorithm>

using namespace kiln::runtime::cuda;
using namespace kiln::runtime;
using namespace kiln;

/// The number of timed trials of each algorithm that cuBLASLt proposes. The
/// minimum time is used.
static constexpr int trials = 4;

/// A proposal replaces the best of the previous proposals only if its time is
/// below this fraction of the best time. If times differ only by measurement
/// noise, the first proposal in cuBLASLt's order is therefore chosen.
static constexpr double clearlyFaster = 0.98;

Result<AlgorithmSearch> AlgorithmSearch::begin(const Driver &driver,
                                               StreamHandle stream,
                                               AlgorithmFile file) {
  AlgorithmSearch search(driver, stream, std::move(file));
  for (Event *event : {&search.start_, &search.end_}) {
    EventHandle handle = nullptr;
    Status status =
        driver.call(driver.api().cuEventCreate, &handle, eventDefault);
    if (!status.ok())
      return status;
    *event = Event(handle, driver.api().cuEventDestroy_v2);
  }
  return search;
}

/// Returns the GPU time in milliseconds of the work that `queue` queues.
Result<double>
AlgorithmSearch::time(const std::function<Status()> &queue) const {
  const DriverApi &api = driver_->api();
  float milliseconds = 0;
  Status status = driver_->call(api.cuEventRecord, start_.get(), stream_);
  if (status.ok())
    status = queue();
  if (status.ok())
    status = driver_->call(api.cuEventRecord, end_.get(), stream_);
  if (status.ok())
    status = driver_->call(api.cuStreamSynchronize, stream_);
  if (status.ok())
    status = driver_->call(api.cuEventElapsedTime, &milliseconds, start_.get(),
                           end_.get());
  if (!status.ok())
    return status;
  return double(milliseconds);
}

static bool isEqual(const Algorithm &a, const Algorithm &b) {
  return std::equal(std::begin(a.words), std::end(a.words),
                    std::begin(b.words));
}

Result<std::size_t>
AlgorithmSearch::choose(const std::string &problem,
                        const std::vector<Algorithm> &proposals,
                        const std::function<Status(std::size_t)> &queue) {
  if (std::optional<Algorithm> known = file_.find(problem))
    for (std::size_t i = 0; i < proposals.size(); ++i)
      if (isEqual(proposals[i], *known))
        return i;
  if (proposals.size() == 1)
    return std::size_t(0);
  std::size_t best = 0;
  double bestTime = 0;
  for (std::size_t i = 0; i < proposals.size(); ++i) {
    double fastest = 0;
    // The first trial is not counted, since it loads kernels.
    for (int trial = 0; trial <= trials; ++trial) {
      Result<double> found = time([&] { return queue(i); });
      if (!found.ok())
        return found.status();
      if (trial > 0)
        fastest = trial == 1 ? *found : std::min(fastest, *found);
    }
    if (i == 0 || fastest < clearlyFaster * bestTime) {
      best = i;
      bestTime = fastest;
    }
  }
  file_.add(problem, proposals[best]);
  return best;
}
