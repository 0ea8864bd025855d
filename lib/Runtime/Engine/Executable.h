//===- Executable.h - Common part of every executable's main() --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An executable contains only the engine of its target: the archive of each
// target has its own main(), which passes the factory of its engine to
// runExecutable(). The object file that kilnc generates provides the program.
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

/// Creates the engine of a target; see createCommandEngine.
using EngineFactory = Result<std::unique_ptr<Engine>> (*)(
    std::string_view json, const void *const *kernels, uint64_t kernelCount);

/// Runs the program that is linked into the executable. Returns the exit code
/// of the process.
int runExecutable(EngineFactory createEngine, int argc, char **argv);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_EXECUTABLE_H
