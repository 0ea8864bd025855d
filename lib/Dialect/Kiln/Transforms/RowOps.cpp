//===- RowOps.cpp - Operations on the rows of matrices --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RowOps.h"

using namespace mlir;
using namespace kiln;

/// Added to the squared norm of a row, so that a row of zeros remains zero. The
/// smallest normal f32 is about 1e-38.
static constexpr double kLeastSquare = 1e-35;
/// orthonormalRows() subtracts from a row its projections onto the previous
/// rows, and then normalizes it. This fraction of the original squared norm is
/// also added to the squared norm of the difference. If the row depends
/// linearly on the previous rows, the difference consists only of rounding
/// errors, which are not orthogonal to those rows. The addend keeps the result
/// short.
static constexpr double kLeastPart = 1e-10, kLeastPartF64 = 1e-24;

Value RowOps::dot(Value a, Value b) {
  RankedTensorType type = tensorTypeOf(a);
  Value products = create<MulOp>(a, b);
  return create<ReduceOp>(type.clone({1}), Reduction::Sum, products,
                          ArrayRef<int64_t>{1});
}

Value RowOps::times(Value tensor, Value factor) {
  Value factors =
      create<BroadcastOp>(tensor.getType(), factor, ArrayRef<int64_t>{0});
  return create<MulOp>(tensor, factors);
}

Value RowOps::orthonormalRows(Value matrix) {
  RankedTensorType type = tensorTypeOf(matrix);
  RankedTensorType row = type.clone({1, type.getDimSize(1)});
  Value least = create<ConstantOp>(row.clone({1}), kLeastSquare);
  double part = type.getElementType().isF64() ? kLeastPartF64 : kLeastPart;
  SmallVector<Value> rows;
  for (int64_t i = 0; i < type.getDimSize(0); ++i) {
    Value next = create<SliceOp>(row, matrix, ArrayRef<int64_t>{i, 0});
    Value lost = create<AddOp>(scale(dot(next, next), part), least);
    for (Value other : rows)
      next = create<SubOp>(next, times(other, dot(next, other)));
    Value square = create<AddOp>(dot(next, next), lost);
    rows.push_back(times(next, create<RsqrtOp>(square)));
  }
  if (rows.size() == 1)
    return rows.front();
  return create<ConcatOp>(type, rows, 0);
}
