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

/// Parameters with fewer elements keep optimizer states that are numbers.
inline constexpr int64_t kLeastEncoded = 4096;

/// Returns true if the moments of a tensor of this type can be stored as whole
/// blocks of codes: it has at least kLeastEncoded elements, and their number is
/// a multiple of a block.
bool hasWholeBlocks(mlir::RankedTensorType type);

/// Returns true if `--states=moments:dynamic8` encodes the optimizer states of
/// a parameter that has type `type`, and whose value at entry of the program is
/// `entry`. It does not encode those of parameters without whole blocks
/// (hasWholeBlocks), or with arithmetic in f64, nor those of tables. A table is
/// a matrix of which ops read rows: most rows of the gradient of an embedding
/// are zero.
bool canEncodeMoments(mlir::RankedTensorType type, mlir::Value entry);

/// Returns true if the blocks of encoded moments are the same whether tensor
/// parallelism divides the parameter or not.
bool hasBlocksOfMoments(StateOp state);

/// Returns the division over the ranks of tensor parallelism of a moment, of
/// which each of these ranks has a part of type `part`. `parameter` is that of
/// the parameter, whose moment may be stored as codes and scales.
ShardAttr shardOfMoment(ShardAttr parameter, mlir::RankedTensorType part,
                        StateOp state);

/// Builds an update whose optimizer states are stored as `storage` says, one
/// entry for each. `values.states` has the states, and instead of an encoded
/// state its codes and its scales.
EncodedUpdateOp buildEncodedUpdate(mlir::OpBuilder &builder, mlir::Location loc,
                                   const OptimizerSpec &spec,
                                   const UpdateValues &values,
                                   llvm::ArrayRef<MomentStorage> storage);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_ENCODEDMOMENTS_H
