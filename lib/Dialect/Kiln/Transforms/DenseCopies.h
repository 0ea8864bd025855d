//===- DenseCopies.h - Copies for concats and strided rows ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_DENSECOPIES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_DENSECOPIES_H

#include "kiln/Dialect/Kiln/IR/RowPrograms.h"

namespace kiln {

/// Rewrites concats along an inner dimension as concats along the last
/// dimension.
void flattenConcats(mlir::Block &block);

/// Inserts copy dispatches into a block of dispatches, so that afterwards
/// - every value v = getStoredOperand(concat, operand) is computed by an op
///   that can write v directly into the result of the concat, and no other use
///   of v requires that v has a buffer of its own;
/// - every reader of strided rows, such as a slice of columns, supports a row
///   pitch.
void insertDenseCopies(mlir::Block &block, RowPrograms &rowPrograms);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_DENSECOPIES_H
