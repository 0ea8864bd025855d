//===- EmuToy.h - Toy model for the emulated GPU ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts the toy model of ToyProgram.h, with or without a host arena, to a
// program for cuda-emu with the same commands and plan. Each kernel is one
// block, in which one thread declares all accesses and then runs the CPU
// kernel.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_GPU_EMUTOY_H
#define KILN_TEST_UNIT_RUNTIME_GPU_EMUTOY_H

#include "ToyOffload.h"

namespace kiln::runtime::toy {

/// Converts a description of the toy model to the target cuda-emu.
nlohmann::json emulated(nlohmann::json description);

/// The size of the kernel table: the device kernels, then the host kernels.
constexpr int64_t emuKernelCount = 2 * kernelCount;

/// Creates an engine for a description that emulated() returned.
Result<std::unique_ptr<Engine>>
makeEmuEngine(const nlohmann::json &description);

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_GPU_EMUTOY_H
