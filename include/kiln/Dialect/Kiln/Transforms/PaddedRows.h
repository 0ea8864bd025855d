//===- PaddedRows.h - Which matrices may have gaps --------------*- C++ -*-===//
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

/// Returns true if the rows of a result in a dispatched program may be padded,
/// and a matmul that reads or writes them may gain by that: every op that
/// accesses the result is a matmul or a row kernel, which support any pitch.
bool mayHavePaddedRows(mlir::OpResult value, RowPrograms &rowPrograms);

/// Returns the value whose producer writes the part of the concat's result that
/// `operand` is: the operand itself, or the tensor that it reshapes if the part
/// is contiguous and no other view reads that tensor. Therefore a concat of
/// flattened tensors is a group of buffers that are stored side by side.
mlir::Value getStoredOperand(ConcatOp concat, mlir::Value operand);

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_PADDEDROWS_H
