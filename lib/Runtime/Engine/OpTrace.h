//===- OpTrace.h - Trace files of the results of commands -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements --check-ops: runs every program once and writes a trace. The trace
// contains the arenas before the run and, for every command, the slots that the
// command wrote, with their contents after the command. Asynchronous copies are
// executed at their starts. `kiln-run --check-trace` repeats the commands of
// the trace. docs/design/check-ops.md defines the format. observeOps passes the
// same results to a callback in this process.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_OPTRACE_H
#define KILN_LIB_RUNTIME_ENGINE_OPTRACE_H

#include "Arena.h"
#include "CommandObserver.h"
#include "kiln/Runtime/Engine/Engine.h"

#include <functional>
#include <string>
#include <vector>

namespace kiln::runtime {

/// The first bytes of a trace.
inline constexpr char opTraceMagic[] = "KILNOPS1";

/// Marks the end of the trace of a program.
inline constexpr uint64_t opTraceEnd = UINT64_MAX;

/// Returns true if the trace has no record of the command, because the command
/// itself writes nothing.
bool hasNoRecord(const Command &command);

/// Returns the indexes of the slots that a command writes.
std::vector<size_t> writtenSlots(const Program &program, size_t command);

/// Returns the offset of the host arena in a trace: the size of the device
/// arena, aligned.
int64_t traceHostBegin(const ProgramFile &file);

/// Writes a trace of every program of `file` to `path`. `prepare(p)` restores
/// the states and writes the inputs of program p.
Status traceOps(const ProgramFile &file, const Arenas &arenas,
                ProgramRunner &runner,
                const std::function<Status(size_t)> &prepare,
                const std::string &path);

/// Runs program `index`, and calls `observe` for every buffer that a command
/// writes.
Status observeOps(const ProgramFile &file, const Arenas &arenas,
                  ProgramRunner &runner, size_t index,
                  const std::function<void(const OpResult &)> &observe);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_OPTRACE_H
