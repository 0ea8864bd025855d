//===- RowSpaces.h - Row spaces that several ops share ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the files that describe ops by row programs have in common.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_ROWSPACES_H
#define KILN_DIALECT_KILN_IR_ROWSPACES_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Rows over all dimensions but the last, which is the columns.
inline RowSpace rowsOfLast(mlir::Value value) {
  auto type = tensorTypeOf(value);
  return {getRowCount(type), getColumnCount(type), /*flexible=*/false};
}

/// The same for an op that treats all elements alike.
inline RowSpace flexibleRows(mlir::Value value) {
  RowSpace space = rowsOfLast(value);
  space.flexible = true;
  return space;
}

/// Whether the builder works on exactly this space.
inline bool hasSpace(const RowBuilder &rows, const RowSpace &space) {
  return rows.getRows() == space.rows && rows.getCols() == space.cols;
}

/// Whether all accesses succeeded.
inline bool areValid(std::initializer_list<RowBuilder::NodeId> nodes) {
  return llvm::all_of(nodes, [](RowBuilder::NodeId id) { return id >= 0; });
}

/// scalar(value) in the type of `like`, or -1.
inline RowBuilder::NodeId scalarLike(RowBuilder &rows, mlir::Value value,
                                     RowBuilder::NodeId like) {
  RowBuilder::NodeId node = rows.scalar(value);
  return node < 0 ? node : rows.cast(node, rows.typeOf(like));
}

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_ROWSPACES_H
