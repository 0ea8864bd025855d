//===- MemoryCheck.h - Checks of --check-memory -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks that memory is used as planned: no allocation within a step, the same
// live heap after every step, little memory outside the arena, and the Engine's
// own checks of its plan.
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

/// `restore` sets all states to their initial values. `load` writes the inputs
/// of run `step` of a program, where `step` counts from 0.
struct MemoryCheckHooks {
  std::function<Status()> restore;
  std::function<Status(size_t program, int64_t step)> load;
};

/// Runs all checks and adds one line per check. Returns an error only if a
/// program cannot run; a failed check is a line with ok = false.
Status checkMemory(Engine &engine, const MemoryCheckHooks &hooks,
                   std::vector<MemoryCheckLine> &lines);

/// Formats the lines as a table.
std::string memoryCheckTable(const std::vector<MemoryCheckLine> &lines);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_MEMORYCHECK_H
