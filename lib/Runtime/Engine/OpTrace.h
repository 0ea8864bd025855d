//===- OpTrace.h - What every command wrote, in a file ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// --check-ops: runs every program once and writes down the arenas before it
// and, after every command, the slots that the command wrote. An asynchronous
// copy is done at its start. `kiln-run --check-trace` repeats the commands from
// that. The format is in docs/design/check-ops.md. observeOps shows the same to
// a caller in this process.
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

/// Ends the records of a program.
inline constexpr uint64_t opTraceEnd = UINT64_MAX;

/// Whether a command has no record: it writes nothing itself.
bool hasNoRecord(const Command &command);

/// The slots of a program that one command writes.
std::vector<size_t> writtenSlots(const Program &program, size_t command);

/// Where the host arena begins in a trace: behind the device arena, aligned.
int64_t traceHostBegin(const ProgramFile &file);

/// Traces every program of `file` to `path`; `prepare(p)` restores the states
/// and writes the inputs of program p.
Status traceOps(const ProgramFile &file, const Arenas &arenas,
                ProgramRunner &runner,
                const std::function<Status(size_t)> &prepare,
                const std::string &path);

/// Runs program `index` and shows `observe` every buffer that a command wrote.
Status observeOps(const ProgramFile &file, const Arenas &arenas,
                  ProgramRunner &runner, size_t index,
                  const std::function<void(const OpResult &)> &observe);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_OPTRACE_H
