//===- Norms.cpp - Layer and root mean square normalization -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The row programs of layer_norm and rms_norm share their formulas with
// normalize and affine, so that the backward pass recomputes bitwise equal
// values. The reference computes every sum in a plain loop in f64.
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
#include "OpChecks.h"
#include "ReferenceRules.h"
#include "RowSpaces.h"
#include "SequenceRules.h"

#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::gradients;
using namespace kiln::reference;
using namespace kiln::sequences;

using NodeId = row::NodeId;
using Kind = row::Kind;

namespace {

/// Emits the mean of a row.
NodeId rowMean(RowBuilder &rows, NodeId x) {
  NodeId sum = rows.reduceSum(x);
  return rows.mul(sum, rows.constantLike(1.0 / rows.getCols(), sum));
}

/// Emits (x - mean) * rstd, or x * rstd if `mean` is -1.
NodeId normalized(RowBuilder &rows, NodeId x, NodeId mean, NodeId rstd) {
  return rows.mul(mean < 0 ? x : rows.sub(x, mean), rstd);
}

/// Emits 1/sqrt(mean(centered^2) + eps).
NodeId reciprocalDeviation(RowBuilder &rows, NodeId centered, double eps) {
  NodeId sum = rows.reduceSum(rows.mul(centered, centered));
  NodeId variance = rows.fma(sum, rows.constantLike(1.0 / rows.getCols(), sum),
                             rows.constantLike(eps, sum));
  return rows.div(rows.constantLike(1, variance),
                  rows.unary(Kind::Sqrt, variance));
}

/// Emits rstd * (g - mean(g) - h * mean(g * h)), where g = dy * gamma and h =
/// (x - mean) * rstd. If `mean` is -1, h is x * rstd and the term mean(g) is
/// omitted.
NodeId normGradient(RowBuilder &rows, NodeId x, NodeId gamma, NodeId mean,
                    NodeId rstd, NodeId dy) {
  NodeId h = normalized(rows, x, mean, rstd);
  NodeId g = rows.mul(dy, gamma);
  NodeId alongH = rows.neg(rowMean(rows, rows.mul(g, h)));
  NodeId centered = mean < 0 ? g : rows.sub(g, rowMean(rows, g));
  return rows.mul(rstd, rows.fma(h, alongH, centered));
}

} // namespace

/// Computes dx = rstd * (g - sum(g)/C - h * sum(g*h)/C), where C is the number
/// of columns, g = dy * gamma and h = (x - mean) * rstd. Without a mean, h is x
/// * rstd and the term sum(g)/C is omitted.
static void normGradient(const HostTensor &x, const HostTensor &gamma,
                         const HostTensor *mean, const HostTensor &rstd,
                         const HostTensor &dy, HostTensor &dx) {
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r) {
    auto normalized = [&](int64_t c) {
      double centered =
          x.reals[r * rows.length + c] - (mean ? mean->reals[r] : 0);
      return centered * rstd.reals[r];
    };
    auto gradient = [&](int64_t c) {
      return dy.reals[r * rows.length + c] * gamma.reals[c];
    };
    double sum = 0, product = 0;
    for (int64_t c = 0; c < rows.length; ++c) {
      if (mean)
        sum += gradient(c);
      product += gradient(c) * normalized(c);
    }
    for (int64_t c = 0; c < rows.length; ++c)
      dx.reals[r * rows.length + c] =
          rstd.reals[r] * (gradient(c) - sum / rows.length -
                           normalized(c) * product / rows.length);
  }
}

//===----------------------------------------------------------------------===//
// layer_norm
//===----------------------------------------------------------------------===//

void LayerNormOp::build(OpBuilder &builder, OperationState &state, Value x,
                        Value gamma, Value beta, double eps) {
  auto type = tensorTypeOf(x);
  auto rows = fullPrecision(type.clone(type.getShape().drop_back()));
  build(builder, state, TypeRange{type, rows, rows}, x, gamma, beta,
        builder.getF64FloatAttr(eps));
}

LogicalResult LayerNormOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)))
    return failure();
  auto shape = getX().getType().getShape();
  if (failed(checkShape(*this, "y", getY(), shape, getX())) ||
      failed(checkFull(*this, "mean", getMean(), shape.drop_back(), getX())) ||
      failed(checkFull(*this, "rstd", getRstd(), shape.drop_back(),
                       getX()))) // Constraint C1.
    return failure();
  if (failed(checkFull(*this, "gamma", getGamma(), shape.back(), getX())))
    return failure();
  return checkFull(*this, "beta", getBeta(), shape.back(),
                   getX()); // Constraint C2.
}

bool LayerNormOp::keepsFullOperand(unsigned operand) { return operand > 0; }
bool LayerNormOp::keepsFullResult(unsigned result) { return result > 0; }

LogicalResult LayerNormOp::buildGradient(OpBuilder &builder,
                                         ValueRange cotangents, Wanted wanted,
                                         Gradients gradients) {
  if (cotangents[1] || cotangents[2])
    return emitOpError("has no derivative for its results 'mean' and 'rstd', "
                       "but the loss depends on them");
  Rule r(builder, *this);
  Value dy = cotangents[0];
  if (wanted[1]) {
    Value h =
        NormalizeOp::create(builder, getLoc(), fullPrecision(getX().getType()),
                            getX(), ValueRange{getMean(), getRstd()});
    gradients[1] = r.sumColumns(r.mul(r.widen(dy), h), getGamma().getType());
  }
  if (wanted[2])
    gradients[2] = r.sumColumns(dy, getBeta().getType());
  if (wanted[0])
    gradients[0] =
        LayerNormGradOp::create(builder, getLoc(), getX().getType(), getX(),
                                getGamma(), getMean(), getRstd(), dy);
  return success();
}

void LayerNormOp::inferSequences(Facts operands, int64_t,
                                 MutableFacts results) {
  setAll(results, inferRows(*this, operands, 1));
}

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

int64_t LayerNormOp::getLongestSum() {
  return getColumnCount(getX().getType());
}

LogicalResult LayerNormOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  const std::vector<double> &gamma = operands[1]->reals;
  const std::vector<double> &beta = operands[2]->reals;
  double eps = getEps().convertToDouble();
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r) {
    const double *in = rowOf(x, r, rows.length);
    double sum = 0, squares = 0;
    for (int64_t c = 0; c < rows.length; ++c)
      sum += in[c];
    double mean = sum / rows.length;
    for (int64_t c = 0; c < rows.length; ++c)
      squares += (in[c] - mean) * (in[c] - mean);
    double rstd = 1 / std::sqrt(squares / rows.length + eps);
    for (int64_t c = 0; c < rows.length; ++c)
      results[0].reals[r * rows.length + c] =
          (in[c] - mean) * rstd * gamma[c] + beta[c];
    results[1].reals[r] = mean;
    results[2].reals[r] = rstd;
  }
  return success();
}

/// Returns true for x, because the op uses x only in x - mean, before any
/// rounding. addInnerNoise models the rounding error of the mean.
bool LayerNormOp::entersExactly(unsigned operand) {
  return getOperand(operand) == getX();
}

/// Adds noise that models the rounding error of the mean of each row. If the
/// mean is far larger than the deviations from the mean, this error shifts
/// every result of the row: y = (x - mean) * rstd * gamma + beta.
void LayerNormOp::addInnerNoise(Operands operands, Results results,
                                double epsilon, NoiseSource noise) {
  const HostTensor &x = *operands[0], &gamma = *operands[1];
  std::vector<double> &y = results[0].reals;
  int64_t columns = gamma.size(), rows = x.size() / columns;
  for (int64_t row = 0; row < rows; ++row) {
    double terms = 0;
    for (int64_t column = 0; column < columns; ++column)
      terms += std::abs(x.reals[row * columns + column]);
    double shift = noise(epsilon * terms / columns);
    results[1].reals[row] += shift;
    for (int64_t column = 0; column < columns; ++column)
      y[row * columns + column] -=
          shift * results[2].reals[row] * gamma.reals[column];
  }
}

LogicalResult LayerNormGradOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)) ||
      failed(checkLike(*this, {{"dy", getDy()}, {"dx", getDx()}}, getX())) ||
      failed(checkPerRow(*this, {{"mean", getMean()}, {"rstd", getRstd()}},
                         getX())))
    return failure();
  return checkFull(*this, "gamma", getGamma(),
                   getX().getType().getShape().back(), getX());
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

int64_t LayerNormGradOp::getLongestSum() {
  return getColumnCount(getDy().getType());
}

LogicalResult LayerNormGradOp::evaluate(Operands operands, Results results) {
  normGradient(*operands[0], *operands[1], operands[2], *operands[3],
               *operands[4], results[0]);
  return success();
}

/// Returns true for x and mean, because the op uses them only in x - mean,
/// before any rounding.
bool LayerNormGradOp::entersExactly(unsigned operand) {
  Value value = getOperand(operand);
  return value == getX() || value == getMean();
}

//===----------------------------------------------------------------------===//
// rms_norm
//===----------------------------------------------------------------------===//

void RmsNormOp::build(OpBuilder &builder, OperationState &state, Value x,
                      Value gamma, double eps) {
  auto type = tensorTypeOf(x);
  auto rows = fullPrecision(type.clone(type.getShape().drop_back()));
  build(builder, state, TypeRange{type, rows}, x, gamma,
        builder.getF64FloatAttr(eps));
}

LogicalResult RmsNormOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)))
    return failure();
  auto shape = getX().getType().getShape();
  if (failed(checkShape(*this, "y", getY(), shape, getX())) ||
      failed(checkFull(*this, "rstd", getRstd(), shape.drop_back(),
                       getX()))) // Constraint C1.
    return failure();
  return checkFull(*this, "gamma", getGamma(), shape.back(),
                   getX()); // Constraint C2.
}

bool RmsNormOp::keepsFullOperand(unsigned operand) { return operand > 0; }
bool RmsNormOp::keepsFullResult(unsigned result) { return result > 0; }
Rounding RmsNormOp::getRounding() { return Rounding::Results; }

LogicalResult RmsNormOp::buildGradient(OpBuilder &builder,
                                       ValueRange cotangents, Wanted wanted,
                                       Gradients gradients) {
  if (cotangents[1])
    return emitOpError(
        "has no derivative for its result 'rstd', on which the loss depends");
  Rule r(builder, *this);
  Value dy = cotangents[0];
  if (wanted[1]) {
    Value h =
        NormalizeOp::create(builder, getLoc(), fullPrecision(getX().getType()),
                            getX(), ValueRange{getRstd()});
    gradients[1] = r.sumColumns(r.mul(r.widen(dy), h), getGamma().getType());
  }
  if (wanted[0])
    gradients[0] = RmsNormGradOp::create(builder, getLoc(), getX().getType(),
                                         getX(), getGamma(), getRstd(), dy);
  return success();
}

void RmsNormOp::inferSequences(Facts operands, int64_t, MutableFacts results) {
  setAll(results, inferRows(*this, operands, 1));
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

int64_t RmsNormOp::getLongestSum() { return getColumnCount(getX().getType()); }

LogicalResult RmsNormOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  double eps = getEps().convertToDouble();
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r) {
    const double *in = rowOf(x, r, rows.length);
    double squares = 0;
    for (int64_t c = 0; c < rows.length; ++c)
      squares += in[c] * in[c];
    double rstd = 1 / std::sqrt(squares / rows.length + eps);
    for (int64_t c = 0; c < rows.length; ++c)
      results[0].reals[r * rows.length + c] =
          in[c] * rstd * operands[1]->reals[c];
    results[1].reals[r] = rstd;
  }
  return success();
}

LogicalResult RmsNormGradOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)) ||
      failed(checkLike(*this, {{"dy", getDy()}, {"dx", getDx()}}, getX())) ||
      failed(checkPerRow(*this, {{"rstd", getRstd()}}, getX())))
    return failure();
  return checkFull(*this, "gamma", getGamma(),
                   getX().getType().getShape().back(), getX());
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

int64_t RmsNormGradOp::getLongestSum() {
  return getColumnCount(getDy().getType());
}

LogicalResult RmsNormGradOp::evaluate(Operands operands, Results results) {
  normGradient(*operands[0], *operands[1], /*mean=*/nullptr, *operands[2],
               *operands[3], results[0]);
  return success();
}

//===----------------------------------------------------------------------===//
// normalize and affine
//===----------------------------------------------------------------------===//

LogicalResult NormalizeOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)))
    return failure();
  if (getStatistics().empty() || getStatistics().size() > 2)
    return emitOpError("has ")
           << getStatistics().size()
           << " statistics, expected two (mean and rstd) or one (rstd)";
  auto shape = getX().getType().getShape();
  for (Value statistic : getStatistics())
    if (failed(checkFull(*this, "statistics", statistic, shape.drop_back(),
                         getX())))
      return failure();
  return checkWide(*this, "y", getY(), shape, getX());
}

bool NormalizeOp::isCheapToRebuild() { return true; }
bool NormalizeOp::keepsFullOperand(unsigned operand) { return operand > 0; }
Rounding NormalizeOp::getRounding() { return Rounding::Results; }

LogicalResult NormalizeOp::buildGradient(OpBuilder &builder,
                                         ValueRange cotangents, Wanted wanted,
                                         Gradients gradients) {
  Rule r(builder, *this);
  Value dy = r.widen(cotangents[0]), rstd = getStatistics().back();
  Value spread = r.perRow(rstd, dy.getType());
  if (wanted[0])
    gradients[0] = r.like(getX(), r.mul(dy, spread));
  bool hasMean = getStatistics().size() == 2;
  if (hasMean && wanted[1])
    gradients[1] = r.neg(r.sumRow(r.mul(dy, spread), rstd.getType()));
  if (wanted[hasMean ? 2 : 1]) {
    Value centered = r.widen(getX());
    if (hasMean)
      centered =
          r.sub(centered, r.perRow(getStatistics().front(), dy.getType()));
    gradients[hasMean ? 2 : 1] = r.sumRow(r.mul(dy, centered), rstd.getType());
  }
  return success();
}

void NormalizeOp::inferSequences(Facts operands, int64_t,
                                 MutableFacts results) {
  setAll(results, inferRows(*this, operands, operands.size()));
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

LogicalResult NormalizeOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0], &rstd = *operands.back();
  const HostTensor *mean = operands.size() == 3 ? operands[1] : nullptr;
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r)
    for (int64_t c = 0; c < rows.length; ++c) {
      int64_t i = r * rows.length + c;
      results[0].reals[i] =
          (x.reals[i] - (mean ? mean->reals[r] : 0)) * rstd.reals[r];
    }
  return success();
}

LogicalResult AffineOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)))
    return failure();
  auto shape = getX().getType().getShape();
  if (failed(checkFull(*this, "gamma", getGamma(), shape.back(), getX())))
    return failure();
  if (getBeta() &&
      failed(checkFull(*this, "beta", getBeta(), shape.back(), getX())))
    return failure();
  return checkWide(*this, "x", getX(), shape, getY());
}

bool AffineOp::isCheapToRebuild() { return true; }
bool AffineOp::keepsFullOperand(unsigned operand) { return operand > 0; }
Rounding AffineOp::getRounding() { return Rounding::Results; }

LogicalResult AffineOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                      Wanted wanted, Gradients gradients) {
  Rule r(builder, *this);
  Value dy = r.widen(cotangents[0]);
  if (wanted[0])
    gradients[0] =
        r.like(getX(), r.mul(dy, r.perColumn(getGamma(), dy.getType())));
  if (wanted[1])
    gradients[1] =
        r.sumColumns(r.mul(dy, r.widen(getX())), getGamma().getType());
  if (getBeta() && wanted[2])
    gradients[2] = r.sumColumns(dy, getBeta().getType());
  return success();
}

void AffineOp::inferSequences(Facts operands, int64_t, MutableFacts results) {
  setAll(results, inferRows(*this, operands, 1));
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

LogicalResult AffineOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0], &gamma = *operands[1];
  const HostTensor *beta = operands.size() == 3 ? operands[2] : nullptr;
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r)
    for (int64_t c = 0; c < rows.length; ++c) {
      int64_t i = r * rows.length + c;
      results[0].reals[i] =
          x.reals[i] * gamma.reals[c] + (beta ? beta->reals[c] : 0);
    }
  return success();
}
