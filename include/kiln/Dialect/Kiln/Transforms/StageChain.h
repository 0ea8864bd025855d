//===- StageChain.h - The forward pass as a chain of stages -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rematerialization works on a chain. The forward pass of a training program is
// cut wherever a single activation carries everything that later forward ops
// read: in a transformer at the residual stream, in front of every attention
// and every feed-forward block.
//
//      a_0         a_1         a_2                 a_L
//  in ---> stage 0 ---> stage 1 ---> ...  stage L-1 ---> loss | backward
//
// a_k, the input of stage k, is the output of stage k-1. Values that depend on
// states and constants alone (broadcast biases, positions) are fixed: they
// belong to no stage, and whoever repeats a reader of one may repeat it too.
// The loss turns the chain round; it is not a stage, and nothing of it is
// repeated.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_STAGECHAIN_H
#define KILN_DIALECT_KILN_TRANSFORMS_STAGECHAIN_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <string>
#include <vector>

namespace kiln {

/// Matrix products and attention. They make a stage worth a cut of its own, and
/// no pass fuses them with anything or changes their order.
bool isHeavyOp(mlir::Operation *op);

/// A residual this many times smaller than the largest one, or than all of its
/// stage together, is not worth a choice: it is kept on the device.
inline constexpr int64_t kSmallShare = 64;

struct ForwardStage {
  /// In program order; without reads, constants and fixed ops.
  llvm::SmallVector<mlir::Operation *> ops;
  /// a_k; null for a stage 0 that starts from the program's arguments alone.
  mlir::Value input;
  /// a_{k+1}.
  mlir::Value output;
  /// Values of the stage, but its output, that the backward pass reads; in
  /// program order.
  llvm::SmallVector<mlir::Value> residuals;
  /// What the importer calls the layer ("h.3"); stages of one layer share it.
  std::string block;
};

/// Where a chain is cut.
enum class StageCut {
  Everywhere, ///< wherever one activation carries everything
  Layers,     ///< only between layers
};

class StageChain {
public:
  /// Of a program of kind train, step level or planned. The chain has no
  /// stages if the program has no backward pass or no cut.
  explicit StageChain(ProgramOp program, StageCut cut = StageCut::Everywhere);

  llvm::ArrayRef<ForwardStage> stages() const { return chain; }
  int64_t size() const { return static_cast<int64_t>(chain.size()); }

  /// Ops of the forward pass behind the last cut, in program order: the loss
  /// and what is computed with it.
  llvm::ArrayRef<mlir::Operation *> lossOps() const { return loss; }

  /// Ops behind the `kiln.phase backward`, in program order.
  llvm::ArrayRef<mlir::Operation *> backwardOps() const { return backward; }

  /// The stage whose backward pass reads `value`: for a_k stage k, for what
  /// stage k computes else stage k. size() for a_L; -1 for every other value.
  int64_t stageReading(mlir::Value value) const;

  /// The stage that computes the results of `op`, or -1.
  int64_t stageOf(mlir::Operation *op) const;

  /// True for an op that computes a fixed value and is cheap to repeat.
  bool isFixed(mlir::Operation *op) const { return fixedOps.contains(op); }

private:
  void findCuts(llvm::ArrayRef<mlir::Operation *> forward, size_t lossBegin);
  void joinLayers();
  void numberStages();
  void findResiduals();

  std::vector<ForwardStage> chain;
  llvm::SmallVector<mlir::Operation *> loss, backward;
  llvm::DenseSet<mlir::Operation *> fixedOps;
  llvm::DenseMap<mlir::Operation *, int64_t> stageOfOp;
  llvm::DenseMap<mlir::Value, int64_t> stageOfInput;
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_STAGECHAIN_H
