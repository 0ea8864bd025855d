//===- KilnRowsOptimizer.cpp - Row programs of optimizer updates ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// RowOpInterface of the update rules. What is the same for all elements (bias
// corrections, decay) is computed once per call, in f64, and rounded once to
// the parameter's type.
//
//===----------------------------------------------------------------------===//

#include "RowSpaces.h"

using namespace mlir;
using namespace kiln;

using NodeId = row::NodeId;
using Kind = row::Kind;

/// 1 - beta^step in f64.
static NodeId biasCorrection(RowBuilder &rows, double beta, NodeId step) {
  NodeId one = rows.constant(1, row::Type::F64);
  NodeId base = rows.constant(beta, row::Type::F64);
  return rows.sub(one, rows.powInt(base, step));
}

/// factor * g + decay * p.
static NodeId decayedGradient(RowBuilder &rows, NodeId factor, NodeId g,
                              double decay, NodeId p) {
  NodeId gradient = rows.mul(rows.cast(factor, rows.typeOf(p)), g);
  if (decay == 0)
    return gradient;
  return rows.fma(rows.constantLike(decay, p), p, gradient);
}

RowSpace AdamOp::getRowSpace() { return flexibleRows(getP()); }
LogicalResult AdamOp::buildRows(RowBuilder &rows) {
  NodeId p = rows.full(getP()), m = rows.full(getM()), v = rows.full(getV()),
         g = rows.full(getG());
  NodeId factor = rows.scalar(getFactor()), lr = rows.scalar(getLr()),
         step = rows.scalar(getStep());
  if (!areValid({p, m, v, g, factor, lr, step}))
    return failure();
  row::Type type = rows.typeOf(p);
  double beta1 = getBeta1().convertToDouble();
  double beta2 = getBeta2().convertToDouble();
  double decay = getWeightDecay().convertToDouble();
  NodeId one = rows.constant(1, row::Type::F64);

  NodeId rate = rows.div(lr, biasCorrection(rows, beta1, step));
  NodeId deviationScale =
      rows.div(one, rows.unary(Kind::Sqrt, biasCorrection(rows, beta2, step)));
  NodeId gradient =
      decayedGradient(rows, factor, g, getDecoupled() ? 0 : decay, p);
  NodeId kept = p;
  if (getDecoupled() && decay != 0) {
    NodeId shrink =
        rows.sub(one, rows.mul(lr, rows.constant(decay, row::Type::F64)));
    kept = rows.mul(p, rows.cast(shrink, type));
  }
  NodeId first = rows.fma(rows.constantLike(beta1, m), m,
                          rows.mul(rows.constantLike(1 - beta1, m), gradient));
  NodeId second = rows.fma(
      rows.constantLike(beta2, v), v,
      rows.mul(rows.constantLike(1 - beta2, v), rows.mul(gradient, gradient)));
  NodeId denominator =
      rows.fma(rows.unary(Kind::Sqrt, second), rows.cast(deviationScale, type),
               rows.constantLike(getEps().convertToDouble(), v));
  rows.set(getNewP(), rows.fma(rows.cast(rows.neg(rate), type),
                               rows.div(first, denominator), kept));
  rows.set(getNewM(), first);
  rows.set(getNewV(), second);
  return success();
}

RowSpace SgdOp::getRowSpace() { return flexibleRows(getP()); }
LogicalResult SgdOp::buildRows(RowBuilder &rows) {
  NodeId p = rows.full(getP()), g = rows.full(getG());
  NodeId factor = rows.scalar(getFactor()), lr = rows.scalar(getLr());
  if (!areValid({p, g, factor, lr}))
    return failure();
  NodeId gradient =
      decayedGradient(rows, factor, g, getWeightDecay().convertToDouble(), p);
  NodeId rate = rows.cast(rows.neg(lr), rows.typeOf(p));
  rows.set(getNewP(), rows.fma(rate, gradient, p));
  return success();
}

RowSpace MomentumOp::getRowSpace() { return flexibleRows(getP()); }
LogicalResult MomentumOp::buildRows(RowBuilder &rows) {
  NodeId p = rows.full(getP()), b = rows.full(getB()), g = rows.full(getG());
  NodeId factor = rows.scalar(getFactor()), lr = rows.scalar(getLr());
  if (!areValid({p, b, g, factor, lr}))
    return failure();
  NodeId gradient =
      decayedGradient(rows, factor, g, getWeightDecay().convertToDouble(), p);
  NodeId mu = rows.constantLike(getMu().convertToDouble(), b);
  NodeId velocity = rows.fma(mu, b, gradient);
  NodeId direction =
      getNesterov() ? rows.fma(mu, velocity, gradient) : velocity;
  NodeId rate = rows.cast(rows.neg(lr), rows.typeOf(p));
  rows.set(getNewP(), rows.fma(rate, direction, p));
  rows.set(getNewB(), velocity);
  return success();
}
