//===- StateResidency.h - Updates and residencies of states -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A residency says where a state is stored, and where it is updated. The
// attribute `kiln.residency` of a state is set from the shares that a user
// names or by the planner; kiln-offload-states moves the states accordingly.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_STATERESIDENCY_H
#define KILN_DIALECT_KILN_TRANSFORMS_STATERESIDENCY_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// The update of a parameter: an op, or on the dispatched level a dispatch,
/// with a result that is written to the parameter and tied to an operand that
/// reads the same parameter, or its shard. The result may be gathered before it
/// is written.
struct StateUpdate {
  StateOp parameter;
  WriteOp write; ///< The write of the parameter.
  mlir::Operation *op = nullptr;
  /// The optimizer states of the parameter that results of `op` are written to.
  llvm::SmallVector<StateOp, 2> moments;
  /// The working copy that programs read instead of the parameter, which is
  /// then a master copy; null if there is none.
  StateOp copy;
  /// True if `op` updates the shard of this rank, and getUsed() is written with
  /// a tensor that is gathered from the shards of all ranks.
  bool isGathered = false;

  /// Returns the state that programs read: the working copy or the parameter.
  StateOp getUsed() const { return copy ? copy : parameter; }
  /// Returns the states that only the update reads: the optimizer states and
  /// the master copy, if there is one.
  llvm::SmallVector<StateOp, 3> getUpdateStates() const;
};

/// The copy of a gradient to the host is waited for only after this number of
/// later copies of gradients have started.
inline constexpr size_t kGradientsUnderWay = 2;
/// Number of updates on the device whose results are still being copied to the
/// host when the next update of states on the host starts.
inline constexpr size_t kUpdatesUnderWay = 2;

/// Returns the updates of a training program, in program order.
std::vector<StateUpdate> findUpdates(mlir::ModuleOp module, ProgramOp train);

/// Returns true if all ops from the first update to the end of the program are
/// updates, whose results are only written to states, or writes and copies. The
/// order of the updates can then be changed. Updates whose results are gathered
/// keep their order.
bool updatesComeLast(ProgramOp train, llvm::ArrayRef<StateUpdate> updates);

/// Returns the read of a state whose value, or whose shard, is `value`, or
/// null.
ReadOp readOf(mlir::Value value);

/// Returns the gradients that an update reads, without views: its operands that
/// are tensors with at least one dimension, and neither states nor their
/// shards.
llvm::SmallVector<mlir::OpResult> gradientsOf(const StateUpdate &update);

/// Returns the frozen parameters and the buffers that may be stored on the
/// host: those that no program writes and that only commands read.
llvm::SmallVector<StateOp> readOnlyWeights(mlir::ModuleOp module);

/// Parts of the bytes of the parameters, from 0 to 1: those whose updates run
/// on the host (`optimizer`), those whose optimizer states are stored on the
/// host and updated on the device (`moments`), and those that are stored only
/// on the host (`parameters`). The last part includes frozen parameters and
/// buffers.
struct ResidencyShares {
  double optimizer = 0, moments = 0, parameters = 0;
  bool any() const { return optimizer > 0 || moments > 0 || parameters > 0; }
};

/// Sets the residency of the states that have none. Each share is spread evenly
/// over the updates, so that the copies of a step are, too.
void assignResidency(mlir::ModuleOp module, ProgramOp train,
                     const ResidencyShares &shares);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_STATERESIDENCY_H
