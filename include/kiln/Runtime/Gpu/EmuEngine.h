//===- EmuEngine.h - Engine of an executable for cuda-emu -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The Engine that runs programs for a GPU on an emulated one (EmuDevice.h).
// What such a program leaves unordered, between streams and inside of kernels,
// is shuffled by a seed, anew in every run. Before the first run the events of
// all programs are proven to be enough.
//
// In the kernel table, a launch with threads has an EmuKernel, any other one a
// KernelFunction of the cpu.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_GPU_EMUENGINE_H
#define KILN_RUNTIME_GPU_EMUENGINE_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <memory>
#include <string_view>

namespace kiln::runtime {

/// Parses the description. `kernels` must outlive the engine.
Result<std::unique_ptr<Engine>> createEmuEngine(std::string_view json,
                                                const void *const *kernels,
                                                uint64_t kernelCount);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_GPU_EMUENGINE_H
