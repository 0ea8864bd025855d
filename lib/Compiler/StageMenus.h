//===- StageMenus.h - Options of the planner's chain ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts the stages of a training program into the chain that the planner
// solves. An option of a stage selects the residuals that the forward pass
// keeps; the others are recomputed before their first reader. Residuals that
// are views of one tensor are kept or recomputed together. So are all
// materializations (values computed from states alone) of a stage, because they
// save equally much time per byte. Small residuals, such as row statistics, are
// always kept if the stage keeps anything.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_STAGEMENUS_H
#define KILN_LIB_COMPILER_STAGEMENUS_H

#include "kiln/Dialect/Kiln/Transforms/Recompute.h"
#include "kiln/Planner/Chain.h"
#include "kiln/Planner/Machine.h"

namespace kiln {

struct StageMenus {
  /// The chain has one stage per stage of the program, and a last stage for the
  /// loss.
  Chain chain;
  /// StageRun::saved for every stage and option. The last option of a stage
  /// keeps the most residuals.
  std::vector<std::vector<uint64_t>> saved;
  /// Bytes of the materializations (values computed from states alone) that
  /// each option of each stage keeps. StageOption::saved includes these bytes.
  std::vector<std::vector<int64_t>> materialized;
  /// Number of heavy ops (matmuls and attention) in each stage's forward and
  /// backward pass. Heavy ops of the loss count as backward.
  std::vector<int64_t> forwardHeavy, backwardHeavy;

  /// Returns the schedule, as a sequence of chain operations, that recomputes
  /// nothing and keeps the most residuals.
  std::vector<ChainOp> keepAll() const;

  /// The workspaces of the stages were estimated before fusion. Corrects them
  /// with the live bytes of a scheduled program that recomputes nothing:
  /// `forward[k]` and `backward[k]` are the maximum live bytes during the
  /// forward and backward pass of stage k. A negative element means that the
  /// maximum is unknown.
  void calibrate(llvm::ArrayRef<int64_t> forward,
                 llvm::ArrayRef<int64_t> backward);

  /// Multiplies the bytes of stage inputs and of residuals, except
  /// materializations (values computed from states alone), by the number of
  /// micro-batches in flight. The residuals of the loss are not multiplied: the
  /// loss is computed in the backward segment, so its residuals exist for one
  /// micro-batch at a time. The chain is then only an approximation:
  ///   - It frees a residual of all micro-batches in flight when the backward
  ///     segment of one of them no longer needs it, which underestimates the
  ///     memory.
  ///   - It also multiplies the bytes of inputs that the forward segment does
  ///     not keep, which overestimates the memory.
  void multiplyResiduals(int64_t inFlight);

  /// Returns the recompute schedule of a sequence of chain operations.
  RecomputeSchedule scheduleOf(llvm::ArrayRef<ChainOp> ops) const;
};

/// Returns the number of micro-batches in which `stages` are executed.
int64_t microbatchesOf(const StageChain &stages);

/// Returns the tensor in whose memory `value` is stored. For a view, this is
/// the source of the view. For a result that is tied to an operand, this is the
/// operand. For any other value, this is `value`.
mlir::Value tensorBehind(mlir::Value value);

StageMenus buildStageMenus(const StageChain &stages, const Machine &machine);

} // namespace kiln

#endif // KILN_LIB_COMPILER_STAGEMENUS_H
