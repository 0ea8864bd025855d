//===- PlanChoices.h - What a plan does with every stage --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Says in names, bytes and seconds what a recompute schedule and the choice of
// values for the host mean for each stage. Made before they are applied to the
// program, while its stages can still be told apart; what is repeated is priced
// afterwards, by the ops that are there then.
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
  std::string layer; ///< as the importer calls it, or empty
  mlir::Location loc;
  int64_t forwardRuns = 1;
  bool keepsInput = true;
  /// Names of ops. What is offloaded is kept, on the host.
  std::vector<std::string> keeps, repeats, offloads;
  /// Of the tensors that the forward pass leaves for the backward pass, of
  /// those that it would leave with nothing repeated, and of those that wait on
  /// the host; for one micro-batch.
  int64_t keptBytes = 0, repeatedBytes = 0, offloadedBytes = 0;
  /// Of what a step repeats, as single ops.
  double repeatedSeconds = 0;
  /// What a step would take to repeat the whole stage.
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
  /// To be called when the schedule has been applied.
  void priceRepeats(ProgramOp train, const Machine &machine);

  llvm::ArrayRef<StageChoice> stages() const { return choices; }
  /// For reports.
  mlir::ArrayAttr attribute(mlir::MLIRContext *context) const;

private:
  void addStage(const ForwardStage &stage, const StageRun &first);

  std::vector<StageChoice> choices;
  std::vector<int64_t> stageOf; ///< by number of the forward op, or -1
  int64_t microbatches = 1;
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_PLANCHOICES_H
