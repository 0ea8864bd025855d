//===- Executable.h - Common part of every executable's main() --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each target has an archive with the engine of that target and a main()
// function, which passes the factory of the engine to runExecutable(). An
// executable is linked with the archive of its target only. The object file
// that kilnc generates provides the program.
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

/// The type of the functions that create the engine of a target.
/// createCommandEngine is one of them and documents the parameters.
using EngineFactory = Result<std::unique_ptr<Engine>> (*)(
    std::string_view json, const void *const *kernels, uint64_t kernelCount);

/// Runs the program that is linked into the executable. Returns the exit code
/// of the process.
int runExecutable(EngineFactory createEngine, int argc, char **argv);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_EXECUTABLE_H
