//===- EmuEngine.h - Execution engine for target cuda-emu -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An Engine that runs GPU programs on the emulated device of EmuDevice.h. In
// every run, a seed shuffles all orders that a program leaves undefined,
// between streams and inside of kernels. start() verifies that the events of
// all programs order all conflicting accesses.
//
// An entry of the kernel table is an EmuKernel if the launch has threads.
// Otherwise it is a KernelFunction, which runs on the host.
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

/// Creates an engine for the program description `json`, whose target must be
/// cuda-emu. `kernels` is the kernel table and must outlive the engine. Returns
/// an error if the description is invalid, is for another target, or requires
/// more than one rank.
Result<std::unique_ptr<Engine>> createEmuEngine(std::string_view json,
                                                const void *const *kernels,
                                                uint64_t kernelCount);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_GPU_EMUENGINE_H
