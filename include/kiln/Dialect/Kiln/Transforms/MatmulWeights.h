//===- MatmulWeights.h - Weights of linear layers ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Finds the matrices that quantization changes: the weights of linear layers.
// They are recognized because only matmuls read them. Embedding tables,
// classifiers, the weights of norms, and biases have other readers.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_MATMULWEIGHTS_H
#define KILN_DIALECT_KILN_TRANSFORMS_MATMULWEIGHTS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "mlir/IR/BuiltinOps.h"
#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace kiln {

using MatmulWeights =
    llvm::MapVector<mlir::StringAttr, llvm::SmallVector<ReadOp>>;

/// Returns parameters by name, each with all its reads. A parameter is included
/// if `filter` returns true for it, if it is a matrix of floating-point
/// elements, if no program writes it, and if only matmuls read it, as their
/// right operand, either directly or after a conversion.
MatmulWeights findMatmulWeights(mlir::ModuleOp module,
                                llvm::function_ref<bool(StateOp)> filter);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_MATMULWEIGHTS_H
