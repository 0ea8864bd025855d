//===- Clipping.cpp - Gradient norm and clipping factor ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpChecks.h"
#include "ReferenceRules.h"
#include "RowSpaces.h"

#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::reference;

using NodeId = row::NodeId;
using Kind = row::Kind;

LogicalResult SumSquaresOp::verify() {
  int64_t rows = getRowCount(getX().getType());
  if (getY().getType().getNumElements() != rows)
    return emitOpError("'y' has ")
           << getY().getType().getNumElements()
           << " elements, expected one for each of the " << rows << " rows";
  return checkElementType(*this, {"y", getY()}, Float64Type::get(getContext()));
}

RowSpace SumSquaresOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult SumSquaresOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX());
  if (!hasSpace(rows, getRowSpace()) || x < 0)
    return failure();
  x = rows.cast(x, row::Type::F64);
  rows.set(getY(), rows.reduceSum(rows.mul(x, x)));
  return success();
}

int64_t SumSquaresOp::getLongestSum() { return termsPerResult(*this); }

LogicalResult SumSquaresOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  int64_t columns = getColumnCount(x.type);
  for (int64_t i = 0, e = x.size(); i < e; ++i)
    results[0].reals[i / columns] += x.reals[i] * x.reals[i];
  return success();
}

LogicalResult ClipFactorOp::verify() {
  if (!!getGradientScale() != !!getIsFinite()) // Constraint C1.
    return emitOpError("has ")
           << (getIsFinite() ? "the result 'is_finite' without the operand "
                               "'gradient_scale'"
                             : "the operand 'gradient_scale' without the "
                               "result 'is_finite'")
           << ", expected both or neither";
  return checkElementType(*this, {"squares", getSquares()},
                          Float64Type::get(getContext()));
}

RowSpace ClipFactorOp::getRowSpace() { return oneRow(getSquares()); }
LogicalResult ClipFactorOp::buildRows(RowBuilder &rows) {
  NodeId squares = rows.full(getSquares()), clip = rows.scalar(getClip());
  if (!hasSpace(rows, getRowSpace()) || !areValid({squares, clip}))
    return failure();
  NodeId one = rows.constant(1, row::Type::F64);
  NodeId norm = rows.unary(Kind::Sqrt, rows.reduceSum(squares));
  NodeId scale = getGradientScale() ? rows.scalar(getGradientScale()) : one;
  if (scale < 0)
    return failure();
  if (getGradientScale())
    norm = rows.div(norm, scale);
  NodeId factor =
      rows.div(clip, rows.add(norm, rows.constant(1e-6, row::Type::F64)));
  factor = rows.select(rows.less(factor, one), factor, one);
  NodeId clips = rows.less(rows.constant(0, row::Type::F64), clip);
  factor = rows.select(clips, factor, one);
  if (getGradientScale()) {
    factor = rows.div(factor, scale);
    // norm - norm is NaN if the norm is infinite or NaN, and 0 otherwise.
    NodeId zero = rows.constant(0, row::Type::F64);
    NodeId isFinite =
        rows.select(rows.equal(rows.sub(norm, norm), zero), one, zero);
    rows.set(getIsFinite(), rows.cast(isFinite, row::Type::I64));
  }
  rows.set(getFactor(), factor);
  rows.set(getNorm(), norm);
  return success();
}

int64_t ClipFactorOp::getLongestSum() { return termsPerResult(*this); }

LogicalResult ClipFactorOp::evaluate(Operands operands, Results results) {
  double clip = operands[1]->reals[0], sum = 0;
  for (double square : operands[0]->reals)
    sum += square;
  double scale = getGradientScale() ? operands[2]->reals[0] : 1;
  double norm = std::sqrt(sum) / scale, factor = clip / (norm + 1e-6);
  results[0].reals[0] = (clip > 0 && factor < 1 ? factor : 1) / scale;
  results[1].reals[0] = norm;
  if (getIsFinite())
    results[2].integers[0] = std::isfinite(norm);
  return success();
}
