//===- ActionTimer.h - GPU timestamps of a program's actions ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Records CUDA events before and after every action on the action's stream. The
// resulting times are the times of execution on the GPU, not the times of the
// API calls.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_ACTIONTIMER_H
#define KILN_LIB_RUNTIME_CUDA_ACTIONTIMER_H

#include "CudaProgram.h"
#include "kiln/Runtime/Engine/Engine.h"

#include <vector>

namespace kiln::runtime::cuda {

class ActionTimer final : public ActionObserver {
public:
  ActionTimer(const CudaProgram &program, const CudaResources &resources)
      : program_(program), resources_(resources) {}

  /// Creates the events and records the start event. The program must be queued
  /// immediately afterwards.
  Status start();
  bool splitsGroups() const override { return false; }
  Status before(std::size_t action) override;
  Status after(std::size_t action) override;
  /// Appends one trace event for each action. The launches of a launch group
  /// run as one and have one event in total. All streams must be synchronized
  /// before the call.
  Status addBars(std::vector<TraceEvent> &events) const;

private:
  const Driver &driver() const { return resources_.gpu->driver(); }
  Status record(const Event &event, Stream stream);
  TraceEvent describe(const StreamAction &action) const;
  /// Returns the time of an event in microseconds since start().
  Result<double> timeOf(const Event &event) const;

  const CudaProgram &program_;
  const CudaResources &resources_;
  Event start_;
  std::vector<Event> begins_, ends_; ///< Indexed by action.
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_ACTIONTIMER_H
