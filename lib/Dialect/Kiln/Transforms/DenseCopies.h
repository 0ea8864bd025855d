//===- DenseCopies.h - Copies where a place would not do --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_DENSECOPIES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_DENSECOPIES_H

#include "kiln/Dialect/Kiln/IR/RowPrograms.h"

namespace kiln {

/// Rewrites concats along an inner dimension as concats along the last one.
void flattenConcats(mlir::Block &block);

/// Inserts copy dispatches into a block of dispatches, so that afterwards
/// - every operand of a concat is made by an op that can write into the
///   concat's result, and goes nowhere else that fixes its place;
/// - every reader of rows that lie apart (a slice of columns) can read such
///   rows.
void insertDenseCopies(mlir::Block &block, RowPrograms &rowPrograms);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_DENSECOPIES_H
