//===- OpRepeat.h - The same commands on the same bytes ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// --check-trace: reads what --check-ops of another executable of the same plan
// wrote, repeats every command on exactly the bytes that the other one read,
// and compares what came out. After a command the other one's results take the
// place of its own, so that no difference reaches a second command.
//
// So a GPU's kernels are compared with those of the emulated GPU, and those of
// one machine with those of another. docs/design/check-ops.md says what may
// differ.
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

/// Appends a line for each kind of command of each program, and one for each
/// result that is too far from the other one's. Fails when the trace cannot be
/// read or belongs to another plan.
Status repeatOps(const ProgramFile &file, const Arenas &arenas,
                 ProgramRunner &runner, const std::string &path,
                 std::vector<MemoryCheckLine> &lines);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_OPREPEAT_H
