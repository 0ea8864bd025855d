//===- OffloadModel.h - Input of the offload planner ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Extracts the input of the offload planner from a training program: the
// duration of every command, the live bytes at every command, and the results
// of the forward pass that can be stored on the host until the backward pass
// reads them. Plans are tried on copies of the module. Ops are numbered before
// dispatches are formed, so that a choice made for a value of a copy can be
// applied to the original module.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_COMPILER_OFFLOADMODEL_H
#define KILN_LIB_COMPILER_OFFLOADMODEL_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Planner/Machine.h"
#include "kiln/Planner/OffloadPlanner.h"
#include "kiln/Planner/StatePlanner.h"

namespace kiln {

/// A result of the forward pass that is offloaded to the host. `lag` is the
/// number of commands that may run before the copy to the host must be
/// complete. `lead` is the number of commands by which the copy back precedes
/// the next reader. See kOffloadAttr.
struct OffloadChoice {
  int64_t op = 0; ///< Number of the defining op, see numberForwardOps.
  unsigned result = 0;
  int64_t lag = 0, lead = 0;
};

/// Returns the block of a training program that contains both phases: the body
/// of the micro-batches, or of the program.
mlir::Block &phaseBlock(ProgramOp program);

/// Numbers the ops of the forward pass, except reads of states, in program
/// order, starting at 0.
void numberForwardOps(ProgramOp program);

/// Returns the number of an op, or nullopt if the op has none. Recomputed
/// clones have the number of the original.
std::optional<int64_t> numberOf(mlir::Operation *op);

void dropNumbers(mlir::Operation *root);

/// Mark the chosen values for offloading. markForwardOps() finds the op of a
/// value by its position in the forward pass. markNumbered() finds the op by
/// its number, and then removes the numbers of all ops.
void markForwardOps(ProgramOp program, llvm::ArrayRef<OffloadChoice> choices);
void markNumbered(mlir::ModuleOp module, llvm::ArrayRef<OffloadChoice> choices);

/// A state that a plan stores on the host.
struct StateMark {
  mlir::StringAttr state;
  Residency residency = Residency::Host;
  /// The prefetch distances (leads) of the copies to the device; see
  /// kPrefetchAttr.
  std::vector<int64_t> leads;
};

/// A gradient that a plan stores on the host until the device updates the
/// parameter. `lag` is the number of commands that may run before the copy to
/// the host must be complete. `lead` is the number of commands by which the
/// copy back precedes the update.
struct GradientMark {
  mlir::StringAttr parameter;
  int64_t lag = 0, lead = 0;
};

/// The states and gradients that a plan stores on the host.
struct StateMarks {
  std::vector<StateMark> states;
  std::vector<GradientMark> gradients;
  bool any() const { return !states.empty() || !gradients.empty(); }
};

/// The states of a program, as the input of the state planner.
struct StateModel {
  StateProblem problem;
  /// The parameter and the optimizer states of each group of `problem`.
  std::vector<mlir::StringAttr> parameters;
  std::vector<llvm::SmallVector<mlir::StringAttr, 2>> moments;

  /// Returns the states and gradients that a solution stores on the host.
  StateMarks marksOf(const StateSolution &solution) const;
};

class OffloadModel {
public:
  /// Builds the model from a module at the level Dispatched (see Levels.h)
  /// whose ops are numbered. The module must not be used afterwards. The caller
  /// sets the capacities of `problem`. If `describesStates` is true, all states
  /// must be on the device. In this case, build() also sets the member `states`
  /// if the program has no loop over micro-batches.
  static llvm::FailureOr<OffloadModel> build(mlir::ModuleOp dispatched,
                                             int64_t maxThreads,
                                             const Machine &machine,
                                             bool describesStates);

  OffloadProblem problem;
  /// The states of the program. Set only if build() was called with
  /// `describesStates` and the program has no loop over micro-batches.
  /// `states->problem` has the same commands as `problem`; the caller also sets
  /// the capacities of `states->problem`.
  std::optional<StateModel> states;
  /// Bytes of the states on the device.
  int64_t stateBytes = 0;
  /// Peak bytes of states and gradients on the host, before activations are
  /// offloaded.
  int64_t hostBytes = 0;

  std::vector<OffloadChoice> choicesOf(const OffloadSolution &solution) const;
  /// Returns the indices of the items of `problem` that a list of choices
  /// offloads, each with the command before which the program waits for the
  /// copy to the host. Leaves out values that are not among the items.
  std::vector<std::pair<size_t, int32_t>>
  itemsOf(llvm::ArrayRef<OffloadChoice> choices) const;

private:
  /// The value that each item of `problem` describes, indexed by item.
  std::vector<OffloadChoice> values;
};

} // namespace kiln

#endif // KILN_LIB_COMPILER_OFFLOADMODEL_H
