//===- StateResidency.h - Updates and residencies of states -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A residency determines where a state is stored and where the state is
// updated. assignResidency() or the planner sets the attribute `kiln.residency`
// of a state, and kiln-offload-states moves the states accordingly.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_STATERESIDENCY_H
#define KILN_DIALECT_KILN_TRANSFORMS_STATERESIDENCY_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// The update of a parameter. The update is an op (on the dispatched level, a
/// dispatch) that has a result tied to an operand. The operand is the old value
/// of the parameter or a shard of the old value. The result, which may be
/// gathered first, is written to the parameter.
struct StateUpdate {
  StateOp parameter;
  WriteOp write; ///< The write of the parameter.
  mlir::Operation *op = nullptr;
  /// The optimizer states to which results of `op` are written.
  llvm::SmallVector<StateOp, 2> moments;
  /// The working copy that programs read instead of the parameter, which is
  /// then a master copy; null if there is none.
  StateOp copy;
  /// True if `op` updates only the shard of this rank, and the updated shards
  /// of all ranks are gathered before they are written to the state that
  /// programs read.
  bool isGathered = false;

  /// Returns the state that programs read: the working copy or the parameter.
  StateOp getUsed() const { return copy ? copy : parameter; }
  /// Returns the states that only the update reads: the optimizer states and
  /// the master copy, if there is one.
  llvm::SmallVector<StateOp, 3> getUpdateStates() const;
};

/// The program waits for copy i of a gradient to the host directly before it
/// starts copy i + kGradientsUnderWay.
inline constexpr size_t kGradientsUnderWay = 2;
/// When an update on the device starts, the results of at most this number of
/// preceding updates are still being copied to the host.
inline constexpr size_t kUpdatesUnderWay = 2;

/// Returns the updates of a training program, in program order.
std::vector<StateUpdate> findUpdates(mlir::ModuleOp module, ProgramOp train);

/// Returns true if all ops from the first update to the end of the program are
/// updates, writes and copies, and the results of the updates are only written
/// to states. The order of the updates can then be changed, except that updates
/// whose results are gathered keep their order.
bool updatesComeLast(ProgramOp train, llvm::ArrayRef<StateUpdate> updates);

/// If `value` is the value of a state or a shard of it, returns the op that
/// reads the state. Otherwise returns null.
ReadOp readOf(mlir::Value value);

/// Returns the gradients that an update reads, which are the operands that have
/// at least one dimension and are neither states nor shards of states. Replaces
/// views by their sources.
llvm::SmallVector<mlir::OpResult> gradientsOf(const StateUpdate &update);

/// Returns the frozen parameters and the buffers that can be stored on the
/// host: those that no program writes, and that no write, return or yield
/// reads, directly or through views.
llvm::SmallVector<StateOp> readOnlyWeights(mlir::ModuleOp module);

/// Fractions of the parameters, from 0 to 1, measured in bytes:
/// - optimizer: the parameters whose updates run on the host
/// - moments: the parameters whose optimizer states are stored on the host and
///   updated on the device
/// - parameters: the parameters, including frozen ones, and the buffers that
///   are stored only on the host
struct ResidencyShares {
  double optimizer = 0, moments = 0, parameters = 0;
  bool any() const { return optimizer > 0 || moments > 0 || parameters > 0; }
};

/// Sets the residency (where a state is stored and updated) of the states that
/// have none. The parameters that belong to each fraction in `shares` are
/// distributed evenly over the sequence of updates, so that copies are
/// distributed evenly over a step.
void assignResidency(mlir::ModuleOp module, ProgramOp train,
                     const ResidencyShares &shares);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_STATERESIDENCY_H
