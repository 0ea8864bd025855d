//===- KilnRowsNorms.cpp - Row programs of norms and softmax --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// RowOpInterface of what normalizes rows, and of the cross entropy of rows.
// layer_norm and rms_norm share their formulas with normalize and affine: the
// values that the backward pass rebuilds are the same bits.
//
//===----------------------------------------------------------------------===//

#include "RowSpaces.h"

#include <limits>

using namespace mlir;
using namespace kiln;

using NodeId = row::NodeId;
using Kind = row::Kind;

namespace {

/// The mean over a row.
NodeId rowMean(RowBuilder &rows, NodeId x) {
  NodeId sum = rows.reduceSum(x);
  return rows.mul(sum, rows.constantLike(1.0 / rows.getCols(), sum));
}

/// (x - mean) * rstd; without mean (-1) x * rstd.
NodeId normalized(RowBuilder &rows, NodeId x, NodeId mean, NodeId rstd) {
  return rows.mul(mean < 0 ? x : rows.sub(x, mean), rstd);
}

/// 1/sqrt(mean of square + eps).
NodeId reciprocalDeviation(RowBuilder &rows, NodeId centered, double eps) {
  NodeId sum = rows.reduceSum(rows.mul(centered, centered));
  NodeId variance = rows.fma(sum, rows.constantLike(1.0 / rows.getCols(), sum),
                             rows.constantLike(eps, sum));
  return rows.div(rows.constantLike(1, variance),
                  rows.unary(Kind::Sqrt, variance));
}

/// rstd * (g - mean(g) - h * mean(g*h)); mean(g) only for a norm with mean.
NodeId normGradient(RowBuilder &rows, NodeId x, NodeId gamma, NodeId mean,
                    NodeId rstd, NodeId dy) {
  NodeId h = normalized(rows, x, mean, rstd);
  NodeId g = rows.mul(dy, gamma);
  NodeId alongH = rows.neg(rowMean(rows, rows.mul(g, h)));
  NodeId centered = mean < 0 ? g : rows.sub(g, rowMean(rows, g));
  return rows.mul(rstd, rows.fma(h, alongH, centered));
}

/// What softmax and cross entropy start with.
struct Softmax {
  NodeId max, exp, sum, probability;
};

Softmax softmaxOf(RowBuilder &rows, NodeId x) {
  Softmax s;
  s.max = rows.reduceMax(x);
  s.exp = rows.unary(Kind::Exp, rows.sub(x, s.max));
  s.sum = rows.reduceSum(s.exp);
  s.probability = rows.mul(s.exp, rows.div(rows.constantLike(1, s.sum), s.sum));
  return s;
}

} // namespace

RowSpace LayerNormOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult LayerNormOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX()), gamma = rows.perColumn(getGamma()),
         beta = rows.perColumn(getBeta());
  if (!hasSpace(rows, getRowSpace()) || !areValid({x, gamma, beta}))
    return failure();
  NodeId mean = rowMean(rows, x);
  NodeId rstd =
      reciprocalDeviation(rows, rows.sub(x, mean), getEps().convertToDouble());
  rows.set(getMean(), mean);
  rows.set(getRstd(), rstd);
  rows.set(getY(), rows.fma(normalized(rows, x, mean, rstd), gamma, beta));
  return success();
}

RowSpace NormalizeOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult NormalizeOp::buildRows(RowBuilder &rows) {
  bool hasMean = getStatistics().size() == 2;
  NodeId x = rows.full(getX());
  NodeId rstd = rows.perRow(getStatistics().back());
  NodeId mean = hasMean ? rows.perRow(getStatistics().front()) : -1;
  if (!hasSpace(rows, getRowSpace()) || !areValid({x, rstd}) ||
      (hasMean && mean < 0))
    return failure();
  rows.set(getY(), normalized(rows, x, mean, rstd));
  return success();
}

RowSpace AffineOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult AffineOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX()), gamma = rows.perColumn(getGamma());
  NodeId beta = getBeta() ? rows.perColumn(getBeta()) : -1;
  if (!hasSpace(rows, getRowSpace()) || !areValid({x, gamma}) ||
      (getBeta() && beta < 0))
    return failure();
  rows.set(getY(), beta < 0 ? rows.mul(x, gamma) : rows.fma(x, gamma, beta));
  return success();
}

RowSpace LayerNormGradOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult LayerNormGradOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX()), gamma = rows.perColumn(getGamma());
  NodeId mean = rows.perRow(getMean()), rstd = rows.perRow(getRstd());
  NodeId dy = rows.full(getDy());
  if (!hasSpace(rows, getRowSpace()) || !areValid({x, gamma, mean, rstd, dy}))
    return failure();
  rows.set(getDx(), normGradient(rows, x, gamma, mean, rstd, dy));
  return success();
}

RowSpace RmsNormOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult RmsNormOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX()), gamma = rows.perColumn(getGamma());
  if (!hasSpace(rows, getRowSpace()) || !areValid({x, gamma}))
    return failure();
  NodeId rstd = reciprocalDeviation(rows, x, getEps().convertToDouble());
  rows.set(getRstd(), rstd);
  rows.set(getY(), rows.mul(normalized(rows, x, -1, rstd), gamma));
  return success();
}

RowSpace RmsNormGradOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult RmsNormGradOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX()), gamma = rows.perColumn(getGamma());
  NodeId rstd = rows.perRow(getRstd()), dy = rows.full(getDy());
  if (!hasSpace(rows, getRowSpace()) || !areValid({x, gamma, rstd, dy}))
    return failure();
  rows.set(getDx(), normGradient(rows, x, gamma, -1, rstd, dy));
  return success();
}

RowSpace SoftmaxOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult SoftmaxOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX());
  if (!hasSpace(rows, getRowSpace()) || x < 0)
    return failure();
  rows.set(getY(), softmaxOf(rows, x).probability);
  return success();
}

RowSpace SoftmaxGradOp::getRowSpace() { return rowsOfLast(getY()); }
LogicalResult SoftmaxGradOp::buildRows(RowBuilder &rows) {
  NodeId y = rows.full(getY()), dy = rows.full(getDy());
  if (!hasSpace(rows, getRowSpace()) || !areValid({y, dy}))
    return failure();
  NodeId along = rows.reduceSum(rows.mul(y, dy));
  rows.set(getDx(), rows.mul(y, rows.sub(dy, along)));
  return success();
}

RowSpace SoftmaxCrossEntropyOp::getRowSpace() {
  return rowsOfLast(getLogits());
}
LogicalResult SoftmaxCrossEntropyOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getLogits()), target = rows.perRow(getTargets());
  if (!hasSpace(rows, getRowSpace()) || !areValid({x, target}))
    return failure();
  NodeId zero = rows.constantLike(0, x), one = rows.constantLike(1, x);
  NodeId isIgnored =
      rows.equal(target, rows.constantLike(kIgnoreIndex, target));
  // Also for an ignored row the kernel reads an element that exists.
  NodeId index = rows.select(isIgnored, rows.constantLike(0, target), target);
  NodeId atTarget = rows.rowElement(getLogits(), index);
  Softmax s = softmaxOf(rows, x);
  NodeId loss =
      rows.sub(rows.unary(Kind::Log, s.sum), rows.sub(atTarget, s.max));
  rows.set(getRowLoss(), rows.select(isIgnored, zero, loss));
  if (!getDlogits())
    return success();
  NodeId scale = scalarLike(rows, getScale(), x);
  if (scale < 0)
    return failure();
  NodeId isTarget = rows.equal(rows.columnIndex(), index);
  NodeId difference =
      rows.select(isTarget, rows.sub(s.probability, one), s.probability);
  rows.set(getDlogits(),
           rows.select(isIgnored, zero, rows.mul(scale, difference)));
  return success();
}
