//===- RowNodes.h - The arithmetic of row program nodes ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a node computes from its inputs, for one element or for 16: nodes that
// know nothing of rows, columns and memory.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_CPU_ROWNODES_H
#define KILN_LIB_TARGET_CPU_ROWNODES_H

#include "KernelBuilder.h"

#include "kiln/Dialect/Kiln/IR/RowProgram.h"

namespace kiln::cpu {

mlir::Type elementTypeOf(KernelBuilder &k, row::Type type);

/// The value of a constant or of an operation on `inputs`, which are all
/// scalars or all vectors.
mlir::Value emitNode(KernelBuilder &k, const row::Node &node,
                     llvm::ArrayRef<mlir::Value> inputs);

/// The neutral element that a row reduction's partial results start from, as
/// a vector.
mlir::Value emitNeutral(KernelBuilder &k, const row::Node &reduction);

/// One more element in each lane of a partial result, or two partial results.
mlir::Value emitCombine(KernelBuilder &k, const row::Node &reduction,
                        mlir::Value partial, mlir::Value next);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGET_CPU_ROWNODES_H
