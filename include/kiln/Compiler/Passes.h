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

#include <functional>
#include <limits>
#include <optional>

namespace kiln {

#define GEN_PASS_DECL
#include "kiln/Compiler/Passes.h.inc"

/// Predicted figures of a training program that recomputes nothing and offloads
/// no activations.
struct PlanOutlook {
  double seconds = 0;
  /// Sizes in bytes of the device arena and of the host arena.
  int64_t height = 0, hostHeight = 0;
  /// Lower bound, in seconds, on the step time of all plans that fit the budget
  /// that PlanningSession::outlookBudget returns.
  double bound = 0;
};

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
  /// A step time in seconds. If no plan has a shorter step time, the pass may
  /// set `isBeaten` and fail without an error message.
  double mustBeat = std::numeric_limits<double>::infinity();
  bool isBeaten = false;
  /// If set, the pass plans nothing, and computes `outlook` instead. The pass
  /// calls `outlookBudget` with PlanOutlook::height as its argument, and
  /// computes PlanOutlook::bound for the budget in bytes that is returned.
  std::function<int64_t(int64_t height)> outlookBudget;
  PlanOutlook outlook;
};

/// Creates the pass kiln-plan-memory. The session must outlive the pass.
std::unique_ptr<mlir::Pass> createPlanMemory(const PlanMemoryOptions &options,
                                             PlanningSession &session);

#define GEN_PASS_REGISTRATION
#include "kiln/Compiler/Passes.h.inc"

} // namespace kiln

#endif // KILN_COMPILER_PASSES_H
