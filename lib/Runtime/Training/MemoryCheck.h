//===- MemoryCheck.h - Checks of --check-memory -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that an executable uses memory as planned: a step allocates no memory,
// the heap has the same size after every step, there is little memory outside
// the arenas, and the engine's checks of the plan succeed.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_TRAINING_MEMORYCHECK_H
#define KILN_LIB_RUNTIME_TRAINING_MEMORYCHECK_H

#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/Status.h"

#include <functional>
#include <string>
#include <vector>

namespace kiln::runtime {

/// `restore` must set all states to their initial values. `load` must write the
/// inputs of step `step` of a program, where steps are numbered from 0.
struct MemoryCheckHooks {
  std::function<Status()> restore;
  std::function<Status(size_t program, int64_t step)> load;
};

/// Runs all checks and appends the results to `lines`. A failed check appends a
/// line with ok = false. Returns an error only if a program cannot run.
Status checkMemory(Engine &engine, const MemoryCheckHooks &hooks,
                   std::vector<MemoryCheckLine> &lines);

/// Formats the lines as a table.
std::string memoryCheckTable(const std::vector<MemoryCheckLine> &lines);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_MEMORYCHECK_H
