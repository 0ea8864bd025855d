//===- OffloadModel.h - A dispatched program as commands --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the offload planner needs to know of a training program: how long every
// command takes, what is alive meanwhile, and which results of the forward pass
// could be elsewhere until the backward pass reads them. Before ops become
// dispatches they are numbered, so that a choice made for a trial's value can
// be applied to the module that the trial was a copy of.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_OFFLOADMODEL_H
#define KILN_LIB_COMPILER_OFFLOADMODEL_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Planner/Machine.h"
#include "kiln/Planner/OffloadPlanner.h"

namespace kiln {

/// A result of the forward pass that goes to the host; see kOffloadAttr.
struct OffloadChoice {
  int64_t op = 0; ///< number of its op, see numberForwardOps
  unsigned result = 0;
  int64_t lag = 0, lead = 0;
};

/// The block of a training program that has both phases: a loop's body or the
/// program's.
mlir::Block &phaseBlock(ProgramOp program);

/// Numbers the ops of the forward pass from 0, as they stand.
void numberForwardOps(ProgramOp program);

/// An op's number; repetitions of it have the same one.
std::optional<int64_t> numberOf(mlir::Operation *op);

void dropNumbers(mlir::Operation *root);

/// Marks the values chosen: in a program with forward ops as they stand, or by
/// the numbers that ops have, which go.
void markForwardOps(ProgramOp program, llvm::ArrayRef<OffloadChoice> choices);
void markNumbered(mlir::ModuleOp module, llvm::ArrayRef<OffloadChoice> choices);

class OffloadModel {
public:
  /// Of a module on the dispatched level with numbered ops, which is not good
  /// for anything else afterwards. Capacities are left to be filled in.
  static llvm::FailureOr<OffloadModel>
  build(mlir::ModuleOp dispatched, int64_t maxThreads, const Machine &machine);

  OffloadProblem problem;
  /// Bytes of the states on the device.
  int64_t stateBytes = 0;
  /// The most bytes on the host at once before anything is offloaded: states,
  /// gradients.
  int64_t hostBytes = 0;

  std::vector<OffloadChoice> choicesOf(const OffloadSolution &solution) const;

private:
  /// Per item of the problem.
  std::vector<OffloadChoice> values;
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_OFFLOADMODEL_H
