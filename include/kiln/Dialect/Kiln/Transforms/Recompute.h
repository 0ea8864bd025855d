//===- Recompute.h - Recomputation of forward stages ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A recompute schedule is the order in which the stages of a chain, the pieces
// of the forward pass, run forward and backward, together with the values that
// each forward run keeps in memory. The literature on rematerialization of
// chains uses the same representation. A schedule begins with the forward pass.
// Every later forward run of a stage becomes a `kiln.recompute` before the
// backward op that needs the results of the run. After the rewrite, the
// backward pass reads only those values of the forward pass that the schedule
// keeps.
//
// A repeated op has the attributes of the original op and reads the same values
// as the original op, so the gradients are bitwise equal to those of the
// original program.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_RECOMPUTE_H
#define KILN_DIALECT_KILN_TRANSFORMS_RECOMPUTE_H

#include "kiln/Dialect/Kiln/Transforms/StageChain.h"
#include "kiln/Support/StageOperation.h"

namespace kiln {

/// One run of a stage, a piece of the forward pass (see StageChain.h).
struct StageRun {
  support::ChainOpKind kind;
  int64_t stage = 0;
  /// For a run that saves, bit i is set if residual i of the stage is kept.
  /// Residuals that are not kept are recomputed before the first backward op
  /// that reads them.
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

/// A sequence of runs that begins with one forward run of each stage in order,
/// and contains the backward runs of all stages, last stage first.
using RecomputeSchedule = std::vector<StageRun>;

/// Returns the schedule with the given name, or std::nullopt if the name is
/// unknown. The names are, for a chain of n stages:
///   none    keep all residuals,
///   full    keep the input of every stage and repeat each stage once,
///   blocks  keep the input of every layer,
///   sqrt    keep the inputs of about sqrt(n) segments of stages (Chen et al.),
///   poor    keep only the input of the program, at the cost of n (n+1) / 2
///           additional forward runs of stages.
std::optional<RecomputeSchedule> namedSchedule(llvm::StringRef name,
                                               const StageChain &chain);

/// Rewrites the backward pass of the program of `chain` according to a
/// schedule. Afterwards, `chain` describes the forward pass only.
void applyRecompute(const StageChain &chain, const RecomputeSchedule &schedule);

/// Hoists materializations, which are residuals that depend only on states and
/// constants, out of the micro-batches if the backward pass reads them. Each is
/// then computed once per step instead of once per micro-batch. Must be called
/// after applyRecompute(): the backward pass then reads only the
/// materializations that the schedule keeps. Does nothing if the program of
/// `chain` has no micro-batches. Invalidates `chain`.
void hoistMaterializations(const StageChain &chain);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_RECOMPUTE_H
