//===- RowDependence.h - Ops that compute rows independently ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An op can compute some rows of its results without the others if each row
// depends only on the same row of some operands, and possibly on all rows of
// the other operands. The row program of the op, from which kernels are
// generated, tells whether this is the case.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_ROWDEPENDENCE_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_ROWDEPENDENCE_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <optional>

namespace kiln {

/// How the rows of the results of an op depend on its operands.
struct RowDependence {
  /// For each operand, true if a row of the results depends only on the same
  /// row of the operand.
  llvm::SmallVector<bool> isByRow;
  /// True if results depend on the number of the row, as masks of dropout do.
  bool numbersRows = false;
  /// True if results and derivatives are finite for any finite operands, up to
  /// overflow.
  bool isFinite = true;
};

/// Returns true for a vector with `rows` elements, and for a matrix with `rows`
/// rows.
bool hasRows(mlir::Value value, int64_t rows);

/// Returns how the results of an op, all of which must have `rows` rows, depend
/// on rows of its operands. Returns std::nullopt if the op cannot compute some
/// rows of its results without the others.
std::optional<RowDependence> findRowDependence(mlir::Operation *op,
                                               int64_t rows);

/// Describes a value that repeats the rows of a smaller tensor, `source`.
struct RepeatedRows {
  mlir::Value source;
  int64_t period; ///< The number of rows of `source`.
};

/// If `matrix` is the result of a broadcast, or of reshapes of such a result,
/// and repeats the rows of the broadcast tensor, returns this tensor. Otherwise
/// returns std::nullopt.
std::optional<RepeatedRows> findRepeatedRows(mlir::Value matrix);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_ROWDEPENDENCE_H
