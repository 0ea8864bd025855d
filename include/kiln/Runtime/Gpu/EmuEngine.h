//===- EmuEngine.h - Execution engine for target cuda-emu -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An Engine that runs GPU programs on the emulated device of EmuDevice.h. Where
// a program does not define the execution order (between streams and within
// kernels), a seed determines the order in each run. start() verifies that the
// events with which the streams wait for each other order all conflicting
// accesses of every program.
//
// For a GPU kernel (Command::threads > 0), the entry in the kernel table is an
// EmuKernel. For a host kernel, the entry is a KernelFunction.
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
