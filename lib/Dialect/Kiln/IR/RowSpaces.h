//===- RowSpaces.h - Helpers that build row programs ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Helpers of RowOpInterface: common row spaces and row programs.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_ROWSPACES_H
#define KILN_DIALECT_KILN_IR_ROWSPACES_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Returns the space whose columns are the last dimension of `value`, and whose
/// rows are all other dimensions of `value` together.
inline RowSpace rowsOfLast(mlir::Value value) {
  auto type = tensorTypeOf(value);
  return {getRowCount(type), getColumnCount(type), /*flexible=*/false};
}

/// Returns the space of an elementwise op. Any other factorization of the
/// elements into rows and columns may replace this space.
inline RowSpace flexibleRows(mlir::Value value) {
  RowSpace space = rowsOfLast(value);
  space.flexible = true;
  return space;
}

/// Returns a space with all elements in one row.
inline RowSpace oneRow(mlir::Value x) {
  return {1, tensorTypeOf(x).getNumElements(), false};
}

/// Returns true if the builder has exactly this space.
inline bool hasSpace(const RowBuilder &rows, const RowSpace &space) {
  return rows.getRows() == space.rows && rows.getCols() == space.cols;
}

/// Returns true if all nodes are valid, that is, not -1.
inline bool areValid(std::initializer_list<RowBuilder::NodeId> nodes) {
  return llvm::all_of(nodes, [](RowBuilder::NodeId id) { return id >= 0; });
}

/// Emits a read of a scalar, cast to the type of `like`. Returns -1 if the
/// scalar cannot be read.
inline RowBuilder::NodeId scalarLike(RowBuilder &rows, mlir::Value value,
                                     RowBuilder::NodeId like) {
  RowBuilder::NodeId node = rows.scalar(value);
  return node < 0 ? node : rows.cast(node, rows.typeOf(like));
}

/// The position, in this rank's shard, of a row of a matrix whose rows are
/// divided over ranks.
struct ShardRow {
  RowBuilder::NodeId index;  ///< Out of bounds unless `isMine` is true.
  RowBuilder::NodeId isMine; ///< True if this rank has the row.
};

/// Emits index - rank * count, the position of row `index` of a whole matrix in
/// the shard of rank `rank`. Each shard has `count` rows. `index` and `rank`
/// are nodes of type I32.
inline ShardRow shardRow(RowBuilder &rows, RowBuilder::NodeId index,
                         RowBuilder::NodeId rank, int64_t count) {
  RowBuilder::NodeId size = rows.constantLike(count, rank);
  RowBuilder::NodeId local = rows.sub(index, rows.mul(rank, size));
  return {local, rows.lessUnsigned(local, size)};
}

/// Emits the row program y = formula(x) of an elementwise op.
inline llvm::LogicalResult
buildUnary(RowBuilder &rows, mlir::Value x, mlir::Value y,
           llvm::function_ref<RowBuilder::NodeId(RowBuilder::NodeId)> formula) {
  RowBuilder::NodeId a = rows.full(x);
  if (a < 0)
    return llvm::failure();
  rows.set(y, formula(a));
  return llvm::success();
}

/// Emits the row program y = formula(x0, x1) of an elementwise op.
inline llvm::LogicalResult
buildBinary(RowBuilder &rows, mlir::Value x0, mlir::Value x1, mlir::Value y,
            llvm::function_ref<RowBuilder::NodeId(RowBuilder::NodeId,
                                                  RowBuilder::NodeId)>
                formula) {
  RowBuilder::NodeId a = rows.full(x0), b = rows.full(x1);
  if (!areValid({a, b}))
    return llvm::failure();
  rows.set(y, formula(a, b));
  return llvm::success();
}

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_ROWSPACES_H
