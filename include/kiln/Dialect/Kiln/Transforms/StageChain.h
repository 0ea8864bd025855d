//===- StageChain.h - The forward pass as a chain of stages -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rematerialization works on a chain. The forward pass of a training program is
// cut at every point after which forward ops read only one of the activations
// that were computed before the point. In a transformer, these are the points
// of the residual stream before every attention block and every feed-forward
// block.
//
//      a_0         a_1         a_2                 a_L
//  in ---> stage 0 ---> stage 1 ---> ...  stage L-1 ---> loss | backward
//
// a_k, the input of stage k, is the output of stage k-1. The loss is not a
// stage, and its ops are never repeated.
//
// Values that depend only on states and constants, such as broadcast biases and
// parameters that are cast to bf16, are fixed. If the backward pass reads a
// fixed value, and all forward ops that read this value are in one stage, the
// value is a *materialization*, which is a residual of that stage. Like any
// other residual, it is either kept or computed again. It is computed from
// states, which are always in memory. Other fixed values belong to no stage,
// and may be repeated together with their readers.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_STAGECHAIN_H
#define KILN_DIALECT_KILN_TRANSFORMS_STAGECHAIN_H

#include "kiln/Dialect/Kiln/IR/Layer.h"

#include "llvm/ADT/SetVector.h"

#include <vector>

namespace kiln {

/// Returns true for matmuls and attention ops. Every stage of the forward pass
/// except the first contains at least one such op, and no pass changes the
/// order of these ops.
bool isHeavyOp(mlir::Operation *op);

/// A residual of b bytes is never offloaded if b * kSmallShare <= the bytes of
/// the largest residual. The planner never recomputes a residual of b bytes if
/// b * kSmallShare <= the sum of the bytes of all residuals of its stage.
inline constexpr int64_t kSmallShare = 64;

struct ForwardStage {
  /// Ops of the stage in program order, without reads and constants. Ops that
  /// depend only on states and constants are included only if they compute
  /// residuals of the stage.
  llvm::SmallVector<mlir::Operation *> ops;
  /// The input of the stage, or null for a first stage that reads only
  /// arguments of the program.
  mlir::Value input;
  /// The output, which is the input of the next stage.
  mlir::Value output;
  /// Values of the stage, except its output, that the backward pass reads, in
  /// program order.
  llvm::SmallVector<mlir::Value> residuals;
  /// The layer of the stage, or null. Adjacent stages may belong to the same
  /// layer.
  LayerAttr layer;
};

/// Selects the points at which a chain is cut.
enum class StageCut {
  Everywhere, ///< Cut at every point with a single live activation.
  Layers,     ///< Cut only between layers.
};

class StageChain {
public:
  /// Builds the chain of a train program, which must be at the level Step or
  /// Planned (see Levels.h). The chain has no stages if the program has no
  /// backward pass or no point at which it can be cut.
  explicit StageChain(ProgramOp program, StageCut cut = StageCut::Everywhere);

  llvm::ArrayRef<ForwardStage> stages() const { return chain; }
  int64_t size() const { return static_cast<int64_t>(chain.size()); }

  /// Returns the ops of the forward pass after the last cut, which compute the
  /// loss, in program order.
  llvm::ArrayRef<mlir::Operation *> lossOps() const { return loss; }

  /// Returns the ops after the `kiln.phase backward`, in program order.
  llvm::ArrayRef<mlir::Operation *> backwardOps() const {
    return backward.getArrayRef();
  }

  /// Returns the stage whose backward pass reads `value`:
  ///   k       for the input of stage k, and for all values that stage k
  ///           computes except its output
  ///   size()  for the output of the last stage
  ///   -1      for all other values
  int64_t stageReading(mlir::Value value) const;

  /// Returns the stage that contains `op`, or -1.
  int64_t stageOf(mlir::Operation *op) const;

  /// Returns true if the op is cheap to repeat, and its result is fixed: the
  /// result depends only on states and constants, or is a view of an argument.
  bool isFixed(mlir::Operation *op) const { return fixedOps.contains(op); }

  /// Returns true if the result of the op is fixed (see isFixed()) and is
  /// either a residual of a stage, called a materialization, or used only to
  /// compute such residuals.
  bool isMaterialization(mlir::Operation *op) const {
    return isFixed(op) && stageOf(op) >= 0;
  }

private:
  void findCuts(llvm::ArrayRef<mlir::Operation *> forward, size_t lossBegin);
  void joinLayers();
  void numberStages();
  int64_t findStageOfFixed(mlir::Operation *op) const;
  void addMaterializations();
  void findResiduals();

  std::vector<ForwardStage> chain;
  llvm::SmallVector<mlir::Operation *> loss;
  llvm::SetVector<mlir::Operation *> backward;
  llvm::SetVector<mlir::Operation *> fixedOps;
  llvm::DenseMap<mlir::Operation *, int64_t> stageOfOp;
  llvm::DenseMap<mlir::Value, int64_t> stageOfInput;
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_STAGECHAIN_H
