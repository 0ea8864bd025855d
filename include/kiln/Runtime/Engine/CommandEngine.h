//===- CommandEngine.h - Engine of a compiled executable --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The Engine that executes the command table of
// docs/reference/program-format.md on a CPU.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_ENGINE_COMMANDENGINE_H
#define KILN_RUNTIME_ENGINE_COMMANDENGINE_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <memory>
#include <string_view>

namespace kiln::runtime {

/// The ABI of a generated kernel.
using KernelFunction = void (*)(char *const *args, const int64_t *immediates,
                                int64_t begin, int64_t end, char *scratch);

/// Parses and checks the program description `json`, and returns an engine that
/// runs the described programs. Fails if the description is invalid or its
/// target is not a CPU. `kernels` must outlive the engine.
Result<std::unique_ptr<Engine>> createCommandEngine(std::string_view json,
                                                    const void *const *kernels,
                                                    uint64_t kernelCount);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_ENGINE_COMMANDENGINE_H
