//===- OpChecks.h - Checks shared by verifiers ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On failure, each check emits one diagnostic with the actual and the expected
// value. `name` is the name of the operand or result in the op definition.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_OPCHECKS_H
#define KILN_DIALECT_KILN_IR_OPCHECKS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <string>

namespace kiln::checks {

/// Formats a shape, such as "[2, 3]".
std::string toString(llvm::ArrayRef<int64_t> shape);

/// Checks that the regions of `parent` contain only ops of the kiln dialect.
mlir::LogicalResult checkOnlyKilnOps(mlir::Operation *parent);
/// Checks that `value` has this shape and, if `like` is not null, the element
/// type of `like`.
mlir::LogicalResult checkShape(mlir::Operation *op, llvm::StringRef name,
                               mlir::Value value, llvm::ArrayRef<int64_t> shape,
                               mlir::Value like);
/// Checks that `value` has this shape and the element type of `like` in full
/// precision: f32 if `like` has a narrow type.
mlir::LogicalResult checkFull(mlir::Operation *op, llvm::StringRef name,
                              mlir::Value value, llvm::ArrayRef<int64_t> shape,
                              mlir::Value like);
/// Checks that `value` has this shape and either the element type of `like` or
/// its full-precision type.
mlir::LogicalResult checkWide(mlir::Operation *op, llvm::StringRef name,
                              mlir::Value value, llvm::ArrayRef<int64_t> shape,
                              mlir::Value like);
mlir::LogicalResult checkRank(mlir::Operation *op, llvm::StringRef name,
                              mlir::Value value, int64_t rank);
mlir::LogicalResult checkMinRank(mlir::Operation *op, llvm::StringRef name,
                                 mlir::Value value, int64_t rank);
/// Checks that `dims` are dimensions of a tensor of this rank, in increasing
/// order.
mlir::LogicalResult checkIncreasing(mlir::Operation *op,
                                    llvm::ArrayRef<int64_t> dims, int64_t rank);
/// Checks that `rows` is a multiple of `sequences`, which must be positive.
mlir::LogicalResult checkSequences(mlir::Operation *op, int64_t rows,
                                   int64_t sequences);
/// Checks that `rng` has the shape [1, 3], for {seed, step, first sequence}, or
/// [1, 4], for {seed, step, first sequence, index of the rank on the axis tp}.
mlir::LogicalResult checkRng(mlir::Operation *op, mlir::Value rng);
mlir::LogicalResult checkProbability(mlir::Operation *op, double p);
/// Checks that `keys`, the number of keys in a tile of attention, is a positive
/// multiple of 64. std::nullopt means that no number is chosen yet.
mlir::LogicalResult checkKeyTile(mlir::Operation *op,
                                 std::optional<uint64_t> keys);
/// Checks that `rows`, the number of rows in a chunk of the loss, is positive.
/// std::nullopt means that no number is chosen yet.
mlir::LogicalResult checkChunkRows(mlir::Operation *op,
                                   std::optional<uint64_t> rows);
/// Checks that a padding index, if not null, is at least `least` and less than
/// the number of rows of the table.
mlir::LogicalResult checkPaddingIndex(mlir::Operation *op,
                                      mlir::IntegerAttr index,
                                      mlir::Value table, int64_t least = 0);
/// Checks that there is one target per row of a rank-2 value.
mlir::LogicalResult checkTargets(mlir::Operation *op, mlir::Value rows,
                                 mlir::Value targets);

/// An operand or result and its name.
using Named = std::pair<llvm::StringRef, mlir::Value>;

/// Checks that all of `values` have the type of `like`.
mlir::LogicalResult checkLike(mlir::Operation *op, llvm::ArrayRef<Named> values,
                              mlir::Value like);
/// Checks that each of `values` has one element per row of `like` and the
/// full-precision element type of `like`.
mlir::LogicalResult checkPerRow(mlir::Operation *op,
                                llvm::ArrayRef<Named> values, mlir::Value like);
mlir::LogicalResult checkElementType(mlir::Operation *op, Named value,
                                     mlir::Type type);

} // namespace kiln::checks

#endif // KILN_DIALECT_KILN_IR_OPCHECKS_H
