//===- PlanRemarks.h - Why a plan is as it is, as remarks -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every decision of the planner is a remark of MLIR's remark engine: passed for
// what was done, missed for what was not and why, analysis for the rest. They
// cost nothing where nobody collects them. Their text is made of arguments as
// LLVM's is, so that tools that read LLVM's remarks read these.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_PLANREMARKS_H
#define KILN_LIB_COMPILER_PLANREMARKS_H

#include "MemoryPlanner.h"
#include "PlanChoices.h"

namespace kiln {

/// From now on, remarks about plans in this context are appended to `text`, as
/// YAML. The text has to outlive the context.
Status collectRemarks(mlir::MLIRContext &context, std::string &text);

/// The figures of a plan and of others that were looked at.
struct PlanFacts {
  int64_t height = 0, hostHeight = 0;
  double seconds = 0, bound = 0;
  /// With everything kept on the device.
  int64_t unplannedHeight = 0;
  double unplannedSeconds = 0;
  /// Of the fastest plan found that fits and sends activations to the host, and
  /// of the fastest that sends none.
  std::optional<double> offloadingSeconds, repeatingSeconds;
};

/// What was done with every stage, and what was not.
void remarkPlan(ProgramOp train, llvm::ArrayRef<StageChoice> stages,
                const PlanFacts &facts, const PlanMemoryOptions &request,
                const Machine &machine);

/// Which states are on the host, and which values are kept as encodings.
void remarkStates(mlir::ModuleOp module);
void remarkEncodings(mlir::ModuleOp module);

/// A compilation with a number of micro-batches and a list for the host.
struct PlanTrial {
  int64_t microbatches = 1;
  std::string offload, lossy;
  double seconds = 0;
  /// Of one that does not fit: the smallest budget that would do.
  std::optional<int64_t> leastBudget;
  /// Others had shown that it would not be the fastest.
  bool skipped = false;
};

/// Which of the trials was taken, and why not the others.
void remarkTrials(mlir::ModuleOp module, llvm::ArrayRef<PlanTrial> trials,
                  const PlanTrial &chosen);

} // namespace kiln

#endif // KILN_LIB_COMPILER_PLANREMARKS_H
