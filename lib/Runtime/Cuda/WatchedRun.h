//===- WatchedRun.h - A run whose memory is looked at -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// While a program is queued, waits for every action and copies the slots that
// it wrote to the host, where an observer of commands sees them: at the same
// places of two arenas as they have on a cpu. Only what was written is copied,
// so the rest of the copies is as old as the last whole copy.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_WATCHEDRUN_H
#define KILN_LIB_RUNTIME_CUDA_WATCHEDRUN_H

#include "Arena.h"
#include "CommandObserver.h"
#include "CudaProgram.h"

namespace kiln::runtime::cuda {

/// Copies bytes of an arena of the device or the host, when nothing is under
/// way, to the same place of `copies`.
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
