//===- KilnReferenceRows.cpp - Reference of lookups and row ops -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ReferenceOpInterface of embeddings, dropout, rotary embeddings, and of the
// gradient norm. Indexes that come from data are checked here, since only the
// data decides whether they are in bounds.
//
//===----------------------------------------------------------------------===//

#include "KilnReferenceRandom.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

using Operands = ArrayRef<const HostTensor *>;
using Results = MutableArrayRef<HostTensor>;

static LogicalResult checkTokens(Operation *op, const HostTensor &tokens,
                                 int64_t rows) {
  for (auto [i, token] : llvm::enumerate(tokens.integers))
    if (token < 0 || token >= rows)
      return op->emitOpError("token ")
             << i << " is " << token << ", expected a row of a table of "
             << rows;
  return success();
}

LogicalResult EmbeddingOp::evaluate(Operands operands, Results results) {
  const HostTensor &tokens = *operands[0], &table = *operands[1];
  int64_t columns = table.shape()[1];
  if (failed(checkTokens(*this, tokens, table.shape()[0])))
    return failure();
  for (int64_t i = 0, e = tokens.size(); i < e; ++i)
    for (int64_t c = 0; c < columns; ++c)
      results[0].reals[i * columns + c] =
          table.reals[tokens.integers[i] * columns + c];
  return success();
}

LogicalResult EmbeddingGradOp::evaluate(Operands operands, Results results) {
  const HostTensor &tokens = *operands[0], &dy = *operands[1];
  HostTensor &dtable = results[0];
  int64_t columns = dtable.shape()[1];
  if (failed(checkTokens(*this, tokens, dtable.shape()[0])))
    return failure();
  if (operands.size() == 3)
    dtable.reals = operands[2]->reals;
  IntegerAttr padding = getPaddingIndexAttr();
  for (int64_t i = 0, e = tokens.size(); i < e; ++i) {
    if (padding && tokens.integers[i] == padding.getInt())
      continue;
    for (int64_t c = 0; c < columns; ++c)
      dtable.reals[tokens.integers[i] * columns + c] +=
          dy.reals[i * columns + c];
  }
  return success();
}

LogicalResult DropoutOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  reference::DropoutMask mask(*operands[1], getKey(), getP().convertToDouble());
  int64_t columns = getColumnCount(x.type);
  int64_t rowsPerSequence =
      getRowCount(x.type) / static_cast<int64_t>(getSequences());
  for (int64_t i = 0, e = x.size(); i < e; ++i) {
    int64_t row = i / columns, column = i % columns;
    results[0].reals[i] =
        x.reals[i] *
        mask.factor(row / rowsPerSequence, row % rowsPerSequence, column);
  }
  return success();
}

LogicalResult RopeOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0], &cos = *operands[1], &sin = *operands[2];
  int64_t rows = x.shape()[0], columns = x.shape()[1];
  int64_t heads = getHeads(), headDim = columns / heads, half = headDim / 2;
  int64_t period = rows / static_cast<int64_t>(getSequences());
  double direction = getInverse() ? -1 : 1;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t j = 0; j < half; ++j) {
        int64_t first = r * columns + h * headDim + j, second = first + half;
        double c = cos.reals[r % period * half + j];
        double s = direction * sin.reals[r % period * half + j];
        double x1 = x.reals[first], x2 = x.reals[second];
        results[0].reals[first] = x1 * c - x2 * s;
        results[0].reals[second] = x2 * c + x1 * s;
      }
  return success();
}

LogicalResult SumSquaresOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  int64_t columns = getColumnCount(x.type);
  for (int64_t i = 0, e = x.size(); i < e; ++i)
    results[0].reals[i / columns] += x.reals[i] * x.reals[i];
  return success();
}

LogicalResult ClipFactorOp::evaluate(Operands operands, Results results) {
  double clip = operands[1]->reals[0], sum = 0;
  for (double square : operands[0]->reals)
    sum += square;
  double norm = std::sqrt(sum), factor = clip / (norm + 1e-6);
  results[0].reals[0] = clip > 0 && factor < 1 ? factor : 1;
  results[1].reals[0] = norm;
  return success();
}

LogicalResult SelectRowOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  int64_t position = operands[1]->integers[0];
  int64_t rows = x.shape()[0], columns = x.shape()[1];
  if (position < 0 || position >= rows)
    return emitOpError("position is ")
           << position << ", expected a row below " << rows;
  for (int64_t c = 0; c < columns; ++c)
    results[0].reals[c] = x.reals[position * columns + c];
  return success();
}
