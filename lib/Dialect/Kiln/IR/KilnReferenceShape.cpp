//===- KilnReferenceShape.cpp - Reference of reductions and shapes --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ReferenceOpInterface of the ops that move or combine elements. Each visits
// every index of one side and computes the element's place on the other.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

using Operands = ArrayRef<const HostTensor *>;
using Results = MutableArrayRef<HostTensor>;

/// Calls visit(index, position) for every element of a row-major tensor.
template <typename Visit>
static void forEachIndex(ArrayRef<int64_t> shape, Visit visit) {
  SmallVector<int64_t> index(shape.size(), 0);
  for (int64_t i = 0, e = ShapedType::getNumElements(shape); i < e; ++i) {
    visit(ArrayRef<int64_t>(index), i);
    for (int64_t dim = shape.size() - 1; dim >= 0; --dim) {
      if (++index[dim] < shape[dim])
        break;
      index[dim] = 0;
    }
  }
}

static int64_t positionOf(ArrayRef<int64_t> index, ArrayRef<int64_t> shape) {
  int64_t position = 0;
  for (auto [i, size] : llvm::zip_equal(index, shape))
    position = position * size + i;
  return position;
}

static void copyElement(const HostTensor &from, int64_t source, HostTensor &to,
                        int64_t destination) {
  if (from.isReal())
    to.reals[destination] = from.reals[source];
  else
    to.integers[destination] = from.integers[source];
}

LogicalResult BroadcastOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  forEachIndex(results[0].shape(), [&](ArrayRef<int64_t> index, int64_t i) {
    SmallVector<int64_t> from;
    for (auto [size, dim] : llvm::zip_equal(x.shape(), getDims()))
      from.push_back(size == 1 ? 0 : index[dim]);
    copyElement(x, positionOf(from, x.shape()), results[0], i);
  });
  return success();
}

LogicalResult ReduceOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  HostTensor &y = results[0];
  bool isMax = getKind() == Reduction::Max;
  if (isMax)
    y.reals.assign(y.size(), -HUGE_VAL);
  forEachIndex(x.shape(), [&](ArrayRef<int64_t> index, int64_t i) {
    SmallVector<int64_t> to;
    for (auto [dim, position] : llvm::enumerate(index))
      if (!llvm::is_contained(getDims(), static_cast<int64_t>(dim)))
        to.push_back(position);
    double &element = y.reals[positionOf(to, y.shape())];
    if (!isMax)
      element += x.reals[i];
    else if (std::isnan(x.reals[i]) || x.reals[i] > element)
      element = x.reals[i];
  });
  if (getKind() == Reduction::Mean)
    for (double &element : y.reals)
      element /= static_cast<double>(x.size() / y.size());
  return success();
}

LogicalResult ReducePartialOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  int64_t columns = getColumnCount(x.type);
  for (int64_t r = 0, e = getRowCount(x.type); r < e; ++r)
    for (int64_t c = 0; c < columns; ++c)
      results[0].reals[r / static_cast<int64_t>(getChunk()) * columns + c] +=
          x.reals[r * columns + c];
  return success();
}

LogicalResult ReduceCombineOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  HostTensor &y = results[0];
  for (int64_t i = 0, e = x.size(); i < e; ++i)
    y.reals[i % y.size()] += x.reals[i];
  if (operands.size() == 2)
    for (int64_t c = 0, e = y.size(); c < e; ++c)
      y.reals[c] = operands[1]->reals[c] + y.reals[c];
  return success();
}

/// The same elements in the same order.
static LogicalResult evaluateCopy(Operands operands, Results results) {
  results[0].reals = operands[0]->reals;
  results[0].integers = operands[0]->integers;
  return success();
}

LogicalResult ReshapeOp::evaluate(Operands operands, Results results) {
  return evaluateCopy(operands, results);
}

LogicalResult CopyOutOp::evaluate(Operands operands, Results results) {
  return evaluateCopy(operands, results);
}

LogicalResult CopyInOp::evaluate(Operands operands, Results results) {
  return evaluateCopy(operands, results);
}

LogicalResult CopyWaitOp::evaluate(Operands operands, Results results) {
  return evaluateCopy(operands, results);
}

LogicalResult TransposeOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  forEachIndex(results[0].shape(), [&](ArrayRef<int64_t> index, int64_t i) {
    SmallVector<int64_t> from(index.size());
    for (auto [position, dim] : llvm::zip_equal(index, getPermutation()))
      from[dim] = position;
    copyElement(x, positionOf(from, x.shape()), results[0], i);
  });
  return success();
}

LogicalResult SliceOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  forEachIndex(results[0].shape(), [&](ArrayRef<int64_t> index, int64_t i) {
    SmallVector<int64_t> from;
    for (auto [position, offset] : llvm::zip_equal(index, getOffsets()))
      from.push_back(position + offset);
    copyElement(x, positionOf(from, x.shape()), results[0], i);
  });
  return success();
}

LogicalResult ConcatOp::evaluate(Operands operands, Results results) {
  HostTensor &y = results[0];
  int64_t dim = getDim(), offset = 0;
  for (const HostTensor *input : operands) {
    forEachIndex(input->shape(), [&](ArrayRef<int64_t> index, int64_t i) {
      SmallVector<int64_t> to(index);
      to[dim] += offset;
      copyElement(*input, i, y, positionOf(to, y.shape()));
    });
    offset += input->shape()[dim];
  }
  return success();
}

LogicalResult PadOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  forEachIndex(x.shape(), [&](ArrayRef<int64_t> index, int64_t i) {
    SmallVector<int64_t> to;
    for (auto [position, low] : llvm::zip_equal(index, getLow()))
      to.push_back(position + low);
    copyElement(x, i, results[0], positionOf(to, results[0].shape()));
  });
  return success();
}
