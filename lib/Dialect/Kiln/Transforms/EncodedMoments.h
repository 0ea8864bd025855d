//===- EncodedMoments.h - Updates of 8-bit optimizer states -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_ENCODEDMOMENTS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_ENCODEDMOMENTS_H

#include "kiln/Dialect/Kiln/Transforms/Optimizer.h"

namespace kiln {

/// The least number of elements of a parameter whose optimizer states are
/// encoded.
inline constexpr int64_t kLeastEncoded = 4096;

/// Returns true if the moments of a tensor of this type can be stored as whole
/// blocks of codes: the tensor has at least kLeastEncoded elements, and the
/// number of elements is a multiple of the block size.
bool hasWholeBlocks(mlir::RankedTensorType type);

/// Returns true if `--states=moments:dynamic8` encodes the optimizer states of
/// a parameter. `type` is the type of the parameter, and `entry` is the value
/// of the parameter at the beginning of the program. The states are not encoded
/// if the parameter has no whole blocks (hasWholeBlocks), if its arithmetic is
/// f64, or if it is a table, that is, a matrix of which ops read single rows.
/// The gradient of a table has mostly rows of zeros.
bool canEncodeMoments(mlir::RankedTensorType type, mlir::Value entry);

/// Returns true if the encoded moments of the parameter `state` consist of the
/// same blocks whether tensor parallelism divides the parameter or not.
bool hasBlocksOfMoments(StateOp state);

/// Returns the #kiln.shard of a moment of `state`, a parameter that tensor
/// parallelism divides. `parameter` is the shard of the parameter itself.
/// `part` is the type of the tensor that each rank of tensor parallelism has:
/// its part of the moment, or of the codes or scales of an encoded moment.
ShardAttr shardOfMoment(ShardAttr parameter, mlir::RankedTensorType part,
                        StateOp state);

/// Builds an update. `storage` has one entry per optimizer state, which says
/// how the state is stored. `values.states` contains the plain states and,
/// instead of each encoded state, its codes and its scales.
EncodedUpdateOp buildEncodedUpdate(mlir::OpBuilder &builder, mlir::Location loc,
                                   const OptimizerSpec &spec,
                                   const UpdateValues &values,
                                   llvm::ArrayRef<MomentStorage> storage);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_ENCODEDMOMENTS_H
