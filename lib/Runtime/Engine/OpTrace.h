//===- OpTrace.h - Trace files of the results of commands -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements --check-ops: runs every program once and writes a trace. The trace
// contains the arenas before the run and, for every command, the contents of
// the slots that the command wrote. Asynchronous copies are executed at their
// starts. `kiln-run --check-trace` repeats the commands of a trace.
// docs/design/check-ops.md defines the format. observeOps() writes no trace,
// and passes the contents of the written slots to a callback instead.
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

/// The number that marks the end of one program's part of the trace.
inline constexpr uint64_t opTraceEnd = UINT64_MAX;

/// Returns the indexes of the slots that a command writes. If a slot has
/// several instances (Slot::ring), each execution of the command writes only
/// the instance at Slot::at().
std::vector<size_t> writtenSlots(const Program &program, size_t command);

/// Returns the offset of the host arena in a trace: the size of the device
/// arena, rounded up to a multiple of 64 bytes if the program has a host arena.
int64_t traceHostBegin(const ProgramFile &file);

/// Writes a trace of every program of `file` to `path`. `prepare(p)` must
/// restore the states and write the inputs of program p.
Status traceOps(const ProgramFile &file, const Arenas &arenas,
                ProgramRunner &runner,
                const std::function<Status(size_t)> &prepare,
                const std::string &path);

/// Runs program `index`. After each command, calls `observe` once for every
/// buffer that the command has written.
Status observeOps(const ProgramFile &file, const Arenas &arenas,
                  ProgramRunner &runner, size_t index,
                  const std::function<void(const OpResult &)> &observe);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_OPTRACE_H
