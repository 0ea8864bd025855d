//===- Passes.h - Passes of the compiler ------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_COMPILER_PASSES_H
#define KILN_COMPILER_PASSES_H

#include "kiln/Planner/Machine.h"
#include "kiln/Support/Status.h"

#include "mlir/Pass/Pass.h"

#include <limits>
#include <optional>

namespace kiln {

#define GEN_PASS_DECL
#include "kiln/Compiler/Passes.h.inc"

/// Holds what a tool gives to kiln-plan-memory and gets from it in addition to
/// options and the module.
struct PlanningSession {
  /// The figures that `machine` and `link` name, if they are loaded already.
  std::optional<Machine> machine;
  /// The message and the exit code of a failure.
  Status status;
  /// The smallest feasible budget, after a refusal.
  int64_t leastBudget = 0;
};

/// The session has to outlive the pass.
std::unique_ptr<mlir::Pass> createPlanMemory(const PlanMemoryOptions &options,
                                             PlanningSession &session);

#define GEN_PASS_REGISTRATION
#include "kiln/Compiler/Passes.h.inc"

} // namespace kiln

#endif // KILN_COMPILER_PASSES_H
