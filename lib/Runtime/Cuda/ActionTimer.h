//===- ActionTimer.h - When the actions of a run took place -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Events of the driver around every action, on the streams themselves: what
// they say is the time of the GPU, not of the calls.
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

  /// Makes the events; the run is to begin right after.
  Status start();
  bool splitsGroups() const override { return false; }
  Status before(std::size_t action) override;
  Status after(std::size_t action) override;
  /// Adds a bar for every action; launches that are one have one, with the name
  /// of the first. All streams must have been waited for.
  Status addBars(std::vector<TraceEvent> &events) const;

private:
  const Driver &driver() const { return resources_.gpu->driver(); }
  Status record(const Event &event, Stream stream);
  TraceEvent describe(const StreamAction &action) const;
  /// Microseconds since start().
  Result<double> timeOf(const Event &event) const;

  const CudaProgram &program_;
  const CudaResources &resources_;
  Event start_;
  std::vector<Event> begins_, ends_; ///< As the actions.
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_ACTIONTIMER_H
