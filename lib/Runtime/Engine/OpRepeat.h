//===- OpRepeat.h - Comparison of ops with a trace --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements --check-trace. Another executable of the same plan has written a
// trace with --check-ops. For each program, this check copies the arenas from
// the trace and then executes every command. After each command, it compares
// the results of the command with the results in the trace. It then copies the
// results in the trace to the arenas, so that a difference in one command does
// not affect later commands.
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

/// Appends to `lines` one line for each kind of command in each program. Also
/// appends one line for each result that differs from the trace by more than
/// rounding can explain, up to a limited number of such lines. Returns an error
/// if the trace cannot be read or was written for another plan.
Status repeatOps(const ProgramFile &file, const Arenas &arenas,
                 ProgramRunner &runner, const std::string &path,
                 std::vector<MemoryCheckLine> &lines);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_OPREPEAT_H
