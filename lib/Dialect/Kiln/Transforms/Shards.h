//===- Shards.h - Division of states over ranks -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ZeRO (Rajbhandari et al., 2020, arXiv:1910.02054) divides the states of
// training over the ranks of data parallelism. KilnRankOps.td defines shards.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_SHARDS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_SHARDS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/Kiln/IR/Owners.h"
#include "kiln/Support/Mesh.h"

namespace kiln {

/// Returns the name of the axis of data parallelism.
inline llvm::StringRef dataAxis() {
  return {support::dataAxis.data(), support::dataAxis.size()};
}

/// Returns the name of the axis of tensor parallelism.
inline llvm::StringRef tensorAxis() {
  return {support::tensorAxis.data(), support::tensorAxis.size()};
}

/// Sets the attribute kiln.mesh of a module, unless the mesh has one rank.
void setMesh(mlir::ModuleOp module, const support::Mesh &mesh);

/// Returns the type of the shards of a tensor over `ranks` ranks. The number of
/// elements of the tensor must be a multiple of `multiple`. The number of
/// elements of a shard is a multiple of `multiple`, too.
///
/// If the rows of a matrix divide over the ranks with little padding, a shard
/// has as many columns as the matrix. Otherwise the elements are divided
/// regardless of rows, and the shard has a number of columns that is efficient
/// for kernels.
mlir::RankedTensorType shardTypeOf(mlir::RankedTensorType whole, int64_t ranks,
                                   int64_t multiple);

/// Returns the concatenation of vectors that have one element type.
mlir::Value concatenate(mlir::OpBuilder &builder, mlir::Location loc,
                        llvm::ArrayRef<mlir::Value> vectors);

/// Returns the sum of the elements of `rowSums` of all ranks of an axis, as a
/// vector of one element.
mlir::Value totalOverRanks(mlir::OpBuilder &builder, mlir::Value rowSums,
                           llvm::StringRef axis);

/// Joins the shards of all ranks to a tensor of type `whole`. If `owner` is not
/// kNoOwner, only the rank `owner` stores the tensor, and its shard is the
/// whole tensor.
mlir::Value gatherWhole(mlir::OpBuilder &builder, mlir::Value shard,
                        mlir::RankedTensorType whole, int64_t owner);

/// Replaces each of `tensors`, on all ranks, by the tensor that its owner, a
/// single rank, has computed. `owners` has one element for each tensor.
void gatherFromOwners(mlir::OpBuilder &builder,
                      llvm::MutableArrayRef<mlir::Value> tensors,
                      llvm::ArrayRef<int64_t> owners);

/// A new value of a state, of which every rank has computed its shard.
struct UpdatedShard {
  StateOp state;
  mlir::Value value;
  int64_t owner = kNoOwner; ///< The rank whose shard is the whole state.
};

/// Writes the new values of states that every rank stores as a whole: joins the
/// shards of all ranks with kiln.all_gather, in buckets of about `bucketBytes`
/// bytes. The all-gather of a bucket follows the update of its last shard.
void gatherStates(std::vector<UpdatedShard> shards, int64_t bucketBytes);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_SHARDS_H
