//===- StageMenus.h - Sizes, times and options of a chain -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Turns the stages of a training program into the chain that the planner
// solves. An option of a stage says which of its residuals the forward pass
// keeps; the others are repeated in front of their first reader. Residuals that
// are views of one tensor are kept or repeated together; small ones (statistics
// of rows) are always kept where the stage keeps anything.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_STAGEMENUS_H
#define KILN_LIB_COMPILER_STAGEMENUS_H

#include "kiln/Dialect/Kiln/Transforms/Recompute.h"
#include "kiln/Planner/Chain.h"
#include "kiln/Planner/Machine.h"

namespace kiln {

struct StageMenus {
  /// One stage per stage of the program, and one more for the loss.
  Chain chain;
  /// For every stage and option: StageRun::saved. The last option keeps most.
  std::vector<std::vector<uint64_t>> saved;
  /// Heavy ops of each stage's forward and backward pass. Those of the loss
  /// count as backward, wherever they stand.
  std::vector<int64_t> forwardHeavy, backwardHeavy;

  /// Keeps everything.
  std::vector<ChainOp> keepAll() const;

  /// Corrects the workspaces, which were estimated before fusion, by what the
  /// scheduled program that keeps everything has alive: at most `forward[k]`
  /// bytes while stage k runs forward and `backward[k]` while it runs backward
  /// (negative: not known).
  void calibrate(llvm::ArrayRef<int64_t> forward,
                 llvm::ArrayRef<int64_t> backward);

  /// The schedule that a sequence of chain operations stands for.
  RecomputeSchedule scheduleOf(llvm::ArrayRef<ChainOp> ops) const;
};

/// The tensor whose memory a value lies in: that of the source of a view, or of
/// the operand that a result takes the place of.
mlir::Value tensorBehind(mlir::Value value);

StageMenus buildStageMenus(const StageChain &stages, const Machine &machine);

} // namespace kiln

#endif // KILN_LIB_COMPILER_STAGEMENUS_H
