//===- OpChecks.h - What several verifiers check ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each check emits one diagnostic when it fails: what was found and what was
// expected. `name` is the operand's or result's in the op's description.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_OPCHECKS_H
#define KILN_DIALECT_KILN_IR_OPCHECKS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <string>

namespace kiln::checks {

/// "[2, 3]".
std::string toString(llvm::ArrayRef<int64_t> shape);

/// `value` must be a tensor of the element type of `like` with this shape.
mlir::LogicalResult checkShape(mlir::Operation *op, llvm::StringRef name,
                               mlir::Value value, llvm::ArrayRef<int64_t> shape,
                               mlir::Value like);
/// The same for what stays in full precision: the elements of `value` are f32
/// where those of `like` are bf16.
mlir::LogicalResult checkFull(mlir::Operation *op, llvm::StringRef name,
                              mlir::Value value, llvm::ArrayRef<int64_t> shape,
                              mlir::Value like);
/// The same for what may do so: besides the element type of `like` f32 will do
/// where that is bf16.
mlir::LogicalResult checkWide(mlir::Operation *op, llvm::StringRef name,
                              mlir::Value value, llvm::ArrayRef<int64_t> shape,
                              mlir::Value like);
mlir::LogicalResult checkRank(mlir::Operation *op, llvm::StringRef name,
                              mlir::Value value, int64_t rank);
mlir::LogicalResult checkMinRank(mlir::Operation *op, llvm::StringRef name,
                                 mlir::Value value, int64_t rank);
/// `dims` must be increasing dimensions of a tensor of this rank.
mlir::LogicalResult checkIncreasing(mlir::Operation *op,
                                    llvm::ArrayRef<int64_t> dims, int64_t rank);
/// `rows` must divide into `sequences` equal sequences.
mlir::LogicalResult checkSequences(mlir::Operation *op, int64_t rows,
                                   int64_t sequences);
/// `rng` must be {seed, step, first sequence}.
mlir::LogicalResult checkRng(mlir::Operation *op, mlir::Value rng);
mlir::LogicalResult checkProbability(mlir::Operation *op, double p);
/// Attention works on blocks of 64 keys; null: not yet chosen.
mlir::LogicalResult checkKeyTile(mlir::Operation *op,
                                 std::optional<uint64_t> keys);
/// Rows of a chunk of head and loss; null: not yet chosen.
mlir::LogicalResult checkChunkRows(mlir::Operation *op,
                                   std::optional<uint64_t> rows);
/// A padding index, unless null, must be a row of the table.
mlir::LogicalResult checkPaddingIndex(mlir::Operation *op,
                                      mlir::IntegerAttr index,
                                      mlir::Value table);
/// One target per row of a rank-2 value.
mlir::LogicalResult checkTargets(mlir::Operation *op, mlir::Value rows,
                                 mlir::Value targets);

} // namespace kiln::checks

#endif // KILN_DIALECT_KILN_IR_OPCHECKS_H
