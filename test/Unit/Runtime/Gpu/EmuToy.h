//===- EmuToy.h - The toy model for the emulated GPU ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The toy of ToyProgram.h, also with a host arena, as a program for cuda-emu:
// the same commands on the same plan. Each kernel is one block, of which one
// thread runs the kernel of the cpu and declares all accesses at once.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_RUNTIME_GPU_EMUTOY_H
#define KILN_TEST_UNIT_RUNTIME_GPU_EMUTOY_H

#include "ToyOffload.h"

namespace kiln::runtime::toy {

/// A description of the toy, for the emulated GPU.
nlohmann::json emulated(nlohmann::json description);

/// The device's kernels, and after them those of the host.
constexpr int64_t emuKernelCount = 2 * kernelCount;

/// An engine for a description like that of emulated().
Result<std::unique_ptr<Engine>>
makeEmuEngine(const nlohmann::json &description);

} // namespace kiln::runtime::toy

#endif // KILN_TEST_UNIT_RUNTIME_GPU_EMUTOY_H
