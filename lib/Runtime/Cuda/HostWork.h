//===- HostWork.h - Commands of the host stream -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Commands of the host stream. Such a command updates parameters in the host
// arena, fills memory of the host arena, or copies memory within the host
// arena. The driver calls the commands in stream order on a thread of its own
// (cuLaunchHostFunc). The commands must not call the driver.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_CUDA_HOSTWORK_H
#define KILN_LIB_RUNTIME_CUDA_HOSTWORK_H

#include "ThreadTeam.h"
#include "kiln/Runtime/Engine/CommandEngine.h"

#include <cstdint>
#include <vector>

namespace kiln::runtime::cuda {

/// One execution of a command, with all references resolved.
struct HostWork {
  ThreadTeam *team = nullptr;
  // These members describe a kernel launch. For a copy or a fill, `kernel` is
  // null.
  KernelFunction kernel = nullptr;
  int64_t grain = 1;
  std::vector<char *> args;
  std::vector<int64_t> immediates;
  int64_t units = 0;
  // These members describe a copy or a fill with zeros. For a fill, `from` is
  // null.
  const char *from = nullptr;
  char *to = nullptr;
  int64_t bytes = 0;
  int64_t zeros = 0; ///< Bytes set to zero after the copied bytes.
};

/// Executes `work`, which points to a HostWork.
void runHostWork(void *work);

} // namespace kiln::runtime::cuda

#endif // KILN_LIB_RUNTIME_CUDA_HOSTWORK_H
