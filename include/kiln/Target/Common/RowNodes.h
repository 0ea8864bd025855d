//===- RowNodes.h - Arithmetic of row program nodes -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits the nodes of a row program that compute a value from their inputs
// alone, for one element or for a vector. These nodes do not depend on rows,
// columns or memory.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_ROWNODES_H
#define KILN_TARGET_COMMON_ROWNODES_H

#include "kiln/Target/Common/ArithBuilder.h"

#include "kiln/Dialect/Kiln/IR/RowProgram.h"

namespace kiln {

mlir::Type elementTypeOf(ArithBuilder &k, row::Type type);

/// Emits a constant, or an operation on `inputs`, which are all scalars or all
/// vectors.
mlir::Value emitNode(ArithBuilder &k, const row::Node &node,
                     llvm::ArrayRef<mlir::Value> inputs);

/// Returns the neutral element of a row reduction as a vector.
mlir::Value emitNeutral(ArithBuilder &k, const row::Node &reduction);

/// Combines two values lane by lane, as the reduction defines. `partial` is a
/// partial result. `next` is an element of the row or a second partial result.
mlir::Value emitCombine(ArithBuilder &k, const row::Node &reduction,
                        mlir::Value partial, mlir::Value next);

} // namespace kiln

#endif // KILN_TARGET_COMMON_ROWNODES_H
