//===- Owners.h - Values that one rank has ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// If a tensor has an owner (see KilnRankOps.td), the ranks execute the same
// program, but some values exist on the owner only: the states of the tensor,
// the sum of its gradient, and everything that is computed from them. Other
// ranks do not execute these computations, and have no memory for their
// results. An all-gather with `owners` gives such a value to all ranks.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_OWNERS_H
#define KILN_DIALECT_KILN_IR_OWNERS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "mlir/IR/SymbolTable.h"

namespace kiln {

/// The result of ownerOf() for everything that all ranks have.
inline constexpr int64_t kNoOwner = -1;

/// If only one rank, the owner, stores a state, returns the index of this rank
/// on the axis of data parallelism. Otherwise returns kNoOwner.
int64_t ownerOf(StateOp state);

/// Returns the attribute `owners` of a collective, which has the index of the
/// owner of each tensor. Returns null if the tensors have no owners.
inline mlir::DenseI64ArrayAttr ownersAttrOf(mlir::Operation *collective) {
  return collective->getAttrOfType<mlir::DenseI64ArrayAttr>("owners");
}

/// Returns the owner of tensor `i` of a collective, or kNoOwner.
inline int64_t ownerOfTensor(mlir::Operation *collective, size_t i) {
  mlir::DenseI64ArrayAttr owners = ownersAttrOf(collective);
  return owners ? owners[static_cast<int64_t>(i)] : kNoOwner;
}

/// Returns the attribute `owners` for tensors with these owners, or null if the
/// owners are kNoOwner. Either all tensors have an owner, or none has.
mlir::DenseI64ArrayAttr ownersAttr(mlir::MLIRContext *context,
                                   llvm::ArrayRef<int64_t> owners);

/// Returns the attribute `owner` of kiln.take_shard: null for kNoOwner.
mlir::IntegerAttr ownerAttr(mlir::MLIRContext *context, int64_t owner);

/// Maps each value that only one rank has to this rank, the owner of the value.
/// The program that contains the values may be at any level of the pipeline,
/// from the step level to the dispatched level. Later changes of the program
/// are not taken into account.
class Owners {
public:
  explicit Owners(ProgramOp program);

  /// Returns the owner of a value, or kNoOwner.
  int64_t ownerOf(mlir::Value value) const {
    auto found = owners.find(value);
    return found == owners.end() ? kNoOwner : found->second;
  }
  /// Returns the owner that executes an op, or kNoOwner for an op that all
  /// ranks execute, such as a collective.
  int64_t ownerOf(mlir::Operation *op) const;
  /// Returns an op whose operands have different owners, or null.
  mlir::Operation *findConflict() const { return conflict; }

private:
  void visit(mlir::Operation *op, const mlir::SymbolTable &symbols);
  void set(mlir::Value value, int64_t owner) {
    if (owner != kNoOwner)
      owners[value] = owner;
  }
  int64_t join(mlir::ValueRange values) const;

  llvm::DenseMap<mlir::Value, int64_t> owners; ///< Never kNoOwner.
  mlir::Operation *conflict = nullptr;
};

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_OWNERS_H
