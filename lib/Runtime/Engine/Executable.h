//===- Executable.h - What every executable's main() does -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Executables of different targets have different engines, and nothing of those
// that they do not need: each target's archive has a main() of its own, which
// names its engine. The object file that kilnc emitted provides the program.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_EXECUTABLE_H
#define KILN_LIB_RUNTIME_ENGINE_EXECUTABLE_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <memory>
#include <string_view>

namespace kiln::runtime {

/// Makes the engine of a target; see createCommandEngine.
using EngineFactory = Result<std::unique_ptr<Engine>> (*)(
    std::string_view json, const void *const *kernels, uint64_t kernelCount);

/// The exit code of the process.
int runExecutable(EngineFactory createEngine, int argc, char **argv);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_EXECUTABLE_H
