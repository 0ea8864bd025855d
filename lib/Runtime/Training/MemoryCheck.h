//===- MemoryCheck.h - --check-memory ---------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shows that memory is used as planned: no allocation inside a step, the same
// heap after every step, little memory beside the arena, and what the Engine
// can prove about its own plan.
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

/// `restore` gives all states their initial values; `load` writes the inputs of
/// a program for its run number `step`, which counts from 0.
struct MemoryCheckHooks {
  std::function<Status()> restore;
  std::function<Status(size_t program, int64_t step)> load;
};

/// Runs all checks. Fails when a program cannot run; a check that does not hold
/// is a line that is not ok.
Status checkMemory(Engine &engine, const MemoryCheckHooks &hooks,
                   std::vector<MemoryCheckLine> &lines);

/// The lines as a table.
std::string memoryCheckTable(const std::vector<MemoryCheckLine> &lines);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_TRAINING_MEMORYCHECK_H
