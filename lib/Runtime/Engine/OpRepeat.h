//===- OpRepeat.h - Comparison of ops with a trace --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements --check-trace: reads a trace that --check-ops of another
// executable of the same plan wrote, repeats every command on the inputs of the
// trace, and compares the results. After each command the results of the trace
// replace those of the repeated command, so that a difference does not affect
// later commands.
//
// The check compares the kernels of a GPU with those of the emulated GPU, or
// the kernels of two machines. docs/design/check-ops.md defines the allowed
// differences.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_OPREPEAT_H
#define KILN_LIB_RUNTIME_ENGINE_OPREPEAT_H

#include "Arena.h"
#include "CommandObserver.h"
#include "kiln/Runtime/Engine/Engine.h"

#include <string>
#include <vector>

namespace kiln::runtime {

/// Appends one line for each kind of command of each program, and one for each
/// result whose difference exceeds the bound. Fails if the trace cannot be read
/// or belongs to another plan.
Status repeatOps(const ProgramFile &file, const Arenas &arenas,
                 ProgramRunner &runner, const std::string &path,
                 std::vector<MemoryCheckLine> &lines);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_OPREPEAT_H
