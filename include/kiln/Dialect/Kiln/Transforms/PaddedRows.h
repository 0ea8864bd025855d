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

/// Returns true if the rows of a result in a dispatched program may be padded
/// and a matmul accesses them. Every op that accesses the result must be a
/// matmul or a row kernel, because these support any pitch.
bool mayHavePaddedRows(mlir::OpResult value, RowPrograms &rowPrograms);

/// Returns the value that is stored directly in the part of the result of
/// `concat` that corresponds to `operand`. This is `operand` itself, or the
/// source of `operand` if `operand` is a reshape, the part is contiguous, and
/// no other view reads the source. A concat of flattened tensors then requires
/// no copies: the tensors are stored one after the other in the result.
mlir::Value getStoredOperand(ConcatOp concat, mlir::Value operand);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_PADDEDROWS_H
