//===- RowNodes.h - The arithmetic of row program nodes ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a node computes from its inputs, for one element or for a vector: nodes
// that know nothing of rows, columns and memory.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_ROWNODES_H
#define KILN_TARGET_COMMON_ROWNODES_H

#include "kiln/Target/Common/ArithBuilder.h"

#include "kiln/Dialect/Kiln/IR/RowProgram.h"

namespace kiln {

mlir::Type elementTypeOf(ArithBuilder &k, row::Type type);

/// The value of a constant or of an operation on `inputs`, which are all
/// scalars or all vectors.
mlir::Value emitNode(ArithBuilder &k, const row::Node &node,
                     llvm::ArrayRef<mlir::Value> inputs);

/// The neutral element that a row reduction's partial results start from, as
/// a vector.
mlir::Value emitNeutral(ArithBuilder &k, const row::Node &reduction);

/// One more element in each lane of a partial result, or two partial results.
mlir::Value emitCombine(ArithBuilder &k, const row::Node &reduction,
                        mlir::Value partial, mlir::Value next);

} // namespace kiln

#endif // KILN_TARGET_COMMON_ROWNODES_H
