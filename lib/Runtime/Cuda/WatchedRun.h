//===- WatchedRun.h - Observer of memory during a run -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Synchronizes after every action, and copies the slots (the planned buffers)
// that the action wrote from the device arena and the host arena to separate
// host memory. A CommandObserver reads this copy, which has the same layout as
// the arenas of a CPU engine. Bytes of the copy outside these slots are not
// updated.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_WATCHEDRUN_H
#define KILN_LIB_RUNTIME_CUDA_WATCHEDRUN_H

#include "Arena.h"
#include "CommandObserver.h"
#include "CudaProgram.h"

namespace kiln::runtime::cuda {

/// Copies `bytes` bytes from `place`, an offset in the device arena or the host
/// arena, to the same offset in `copies`. No queued work may be pending.
Status copyToHost(const CudaResources &resources, const Arenas &copies,
                  const Place &place, int64_t bytes);

class WatchedRun final : public ActionObserver {
public:
  WatchedRun(const CudaProgram &program, const CudaResources &resources,
             const Arenas &copies, CommandObserver &observer)
      : program_(program), resources_(resources), copies_(copies),
        observer_(observer) {}

  Status before(std::size_t action) override;
  Status after(std::size_t action) override;

private:
  const CudaProgram &program_;
  const CudaResources &resources_;
  const Arenas &copies_;
  CommandObserver &observer_;
};

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_WATCHEDRUN_H
