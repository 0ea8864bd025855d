//===- PaddedRows.h - Padding of matrix rows --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_PADDEDROWS_H
#define KILN_DIALECT_KILN_TRANSFORMS_PADDEDROWS_H

#include "mlir/IR/Value.h"

namespace kiln {

class RowPrograms;

class ConcatOp;

/// Returns true if a matmul computes or reads `value`, the result of an op at
/// the dispatched level, and the rows of `value` may be padded. Padding
/// requires that every op that accesses `value` is a matmul or a row kernel,
/// because only these ops support any pitch.
bool mayHavePaddedRows(mlir::OpResult value, RowPrograms &rowPrograms);

/// Returns the value that an op can write directly into the slice of the result
/// of `concat` that corresponds to `operand`. This value is the source of
/// `operand` if `operand` is a reshape with a single use, the slice is
/// contiguous, and no other view or concat reads the source. Otherwise this
/// value is `operand` itself. A concat of flattened tensors therefore requires
/// no copies: the tensors are stored one after the other in the result.
mlir::Value getStoredOperand(ConcatOp concat, mlir::Value operand);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_PADDEDROWS_H
