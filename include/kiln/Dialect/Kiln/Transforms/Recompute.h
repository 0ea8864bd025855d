//===- Recompute.h - Schedules that repeat forward stages -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A recompute schedule says, in the terms of the literature on chains, in which
// order stages run forward and backward and what each forward run keeps. The
// forward pass is a schedule's beginning; every later forward run becomes a
// `kiln.recompute` in front of the backward op that needs it. What is not kept
// simply has no reader any more.
//
// Exact: a repeated op has the same attributes and reads the same values, so
// the gradients are those of the plain program to the last bit.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_RECOMPUTE_H
#define KILN_DIALECT_KILN_TRANSFORMS_RECOMPUTE_H

#include "kiln/Dialect/Kiln/Transforms/StageChain.h"
#include "kiln/Support/StageOperation.h"

namespace kiln {

/// One run of a stage.
struct StageRun {
  support::ChainOpKind kind;
  int64_t stage = 0;
  /// Of a run that saves: bit i set if residual i of the stage is kept. The
  /// others are repeated in front of the backward op that reads them first.
  uint64_t saved = ~uint64_t(0);

  bool operator==(const StageRun &other) const {
    return kind == other.kind && stage == other.stage && saved == other.saved;
  }
  bool saves() const {
    return kind == support::ChainOpKind::ForwardSave ||
           kind == support::ChainOpKind::ForwardSaveDrop;
  }
  bool dropsInput() const {
    return kind == support::ChainOpKind::ForwardDrop ||
           kind == support::ChainOpKind::ForwardSaveDrop;
  }
};

/// Begins with one forward run of each stage in order and contains the backward
/// runs of all stages, last stage first.
using RecomputeSchedule = std::vector<StageRun>;

/// The schedules that have names. Unknown names give nothing.
///   none    keep everything
///   full    keep the input of every stage: each is repeated once
///   blocks  keep the input of every layer
///   sqrt    keep the inputs of about sqrt(n) segments of stages (Chen et al.)
///   poor    keep the program's input alone: n (n+1) / 2 more forward runs
std::optional<RecomputeSchedule> namedSchedule(llvm::StringRef name,
                                               const StageChain &chain);

/// Rewrites the backward pass of the program that `chain` was made of. The
/// chain is not valid any more afterwards.
void applyRecompute(const StageChain &chain, const RecomputeSchedule &schedule);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_RECOMPUTE_H
