//===- PlanChoices.h - Choices of a plan per stage --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Describes, in names, bytes and seconds, the effect of a recompute schedule
// and of the offload choices on each stage of the forward pass. A PlanChoices
// object must be constructed before the choices are applied to the program,
// because the stages cannot be identified afterwards. The recomputed ops are
// priced after the schedule is applied.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_PLANCHOICES_H
#define KILN_LIB_COMPILER_PLANCHOICES_H

#include "OffloadModel.h"

#include "kiln/Dialect/Kiln/Transforms/Recompute.h"

namespace kiln {

struct StageChoice {
  StageChoice(int64_t stage, llvm::StringRef layer, mlir::Location loc)
      : stage(stage), layer(layer), loc(loc) {}

  int64_t stage;
  std::string layer; ///< Layer name from the importer, or empty.
  mlir::Location loc;
  int64_t forwardRuns = 1;
  bool keepsInput = true;
  /// Names of the values that are kept, recomputed and offloaded. Offloaded
  /// values are also in `keeps`.
  std::vector<std::string> keeps, repeats, offloads;
  /// Bytes, for one micro-batch, of the tensors that are kept for the backward
  /// pass, of the tensors that are recomputed, and of the tensors that are
  /// offloaded. Offloaded tensors are also counted in keptBytes.
  int64_t keptBytes = 0, repeatedBytes = 0, offloadedBytes = 0;
  /// Estimated seconds per step of the recomputed ops, without fusion.
  double repeatedSeconds = 0;
  /// Seconds per step to recompute the whole stage.
  double wholeSeconds = 0;

  bool repeatsSome() const {
    return forwardRuns > 1 || !keepsInput || !repeats.empty();
  }
};

class PlanChoices {
public:
  PlanChoices(ProgramOp train, const StageChain &stages,
              const RecomputeSchedule &schedule,
              llvm::ArrayRef<OffloadChoice> offload, const Machine &machine);
  /// Estimates the time of the recomputed ops. Must be called after the
  /// schedule is applied.
  void priceRepeats(ProgramOp train, const Machine &machine);

  llvm::ArrayRef<StageChoice> stages() const { return choices; }
  /// Returns the choices as an attribute for reports.
  mlir::ArrayAttr attribute(mlir::MLIRContext *context) const;

private:
  void addStage(const ForwardStage &stage, const StageRun &first);

  std::vector<StageChoice> choices;
  /// Index of the stage of each forward op, indexed by op number; -1 if the op
  /// belongs to no stage.
  std::vector<int64_t> stageOf;
  int64_t microbatches = 1;
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_PLANCHOICES_H
