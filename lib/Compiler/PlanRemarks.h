//===- PlanRemarks.h - Remarks of the memory planner ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The planner reports every decision through MLIR's remark engine: passed
// remarks for what was done, missed remarks for what was not done and why,
// analysis remarks for other information. Remarks cost nothing if they are not
// enabled. Their text consists of named arguments, as in LLVM, so tools that
// read LLVM's remarks can read them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_PLANREMARKS_H
#define KILN_LIB_COMPILER_PLANREMARKS_H

#include "MemoryPlanner.h"
#include "PlanChoices.h"

namespace kiln {

/// Appends all further planner remarks of this context to `text`, as YAML. The
/// text must outlive the context.
Status collectRemarks(mlir::MLIRContext &context, std::string &text);

/// Figures of the chosen plan and of the plans that remarks compare it with.
struct PlanFacts {
  int64_t height = 0, hostHeight = 0;
  double seconds = 0, bound = 0;
  /// Figures of the plan that keeps everything on the device.
  int64_t unplannedHeight = 0;
  double unplannedSeconds = 0;
  /// Number and bytes of the states on the host that are copied to the device
  /// once per step.
  int64_t keptStates = 0, keptBytes = 0;
  /// Seconds of the fastest feasible plan found that offloads activations, and
  /// of the fastest one that offloads none.
  std::optional<double> offloadingSeconds, repeatingSeconds;
};

/// Emits remarks on what was and was not done for every stage of the forward
/// pass.
void remarkPlan(ProgramOp train, llvm::ArrayRef<StageChoice> stages,
                const PlanFacts &facts, const PlanMemoryOptions &request,
                const Machine &machine);

/// Emits remarks on the states stored on the host, and on the values that are
/// kept in encoded form.
void remarkStates(mlir::ModuleOp module);
void remarkEncodings(mlir::ModuleOp module);

/// A trial compilation with a given number of micro-batches, bucket size,
/// offload list and lossy technique.
struct PlanTrial {
  int64_t number = 0; ///< Number of the trial, starting at 1.
  int64_t microbatches = 1;
  int64_t bucketBytes = 0;
  std::string offload, lossy;
  double seconds = 0;
  /// Smallest feasible budget; set if the plan does not fit.
  std::optional<int64_t> leastBudget;
  /// True if the trial was skipped because it cannot be the fastest.
  bool skipped = false;
  /// Estimated lower bound on the step time, in seconds, because of which the
  /// trial was skipped.
  std::optional<double> bound;
  /// True if planning was stopped because the trial cannot be faster than an
  /// earlier trial.
  bool isSlower = false;
};

/// Emits remarks on the chosen trial and on why the others were not chosen.
void remarkTrials(mlir::ModuleOp module, llvm::ArrayRef<PlanTrial> trials,
                  const PlanTrial &chosen);

} // namespace kiln

#endif // KILN_LIB_COMPILER_PLANREMARKS_H
