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

/// Data that a tool and the pass kiln-plan-memory exchange in addition to the
/// pass options and the module.
struct PlanningSession {
  /// Performance figures of the machine that the pass options `machine` and
  /// `link` describe, if they have already been loaded.
  std::optional<Machine> machine;
  /// Message and exit code if the pass fails.
  Status status;
  /// Smallest feasible budget in bytes; set if no plan fits.
  int64_t leastBudget = 0;
};

/// Creates the pass kiln-plan-memory. The session must outlive the pass.
std::unique_ptr<mlir::Pass> createPlanMemory(const PlanMemoryOptions &options,
                                             PlanningSession &session);

#define GEN_PASS_REGISTRATION
#include "kiln/Compiler/Passes.h.inc"

} // namespace kiln

#endif // KILN_COMPILER_PASSES_H
