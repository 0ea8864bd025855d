//===- GradientDescent.cpp - Update ops of SGD and momentum -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UpdateOps.h"

using namespace mlir;
using namespace kiln;

using NodeId = row::NodeId;

using Operands = ArrayRef<const HostTensor *>;
using Results = MutableArrayRef<HostTensor>;

LogicalResult SgdOp::buildRows(RowBuilder &rows) {
  NodeId p = rows.full(getP()), g = rows.full(getG());
  NodeId factor = rows.scalar(getFactor()), lr = rows.scalar(getLr());
  if (!areValid({p, g, factor, lr}))
    return failure();
  NodeId gradient =
      decayedGradient(rows, factor, g, getWeightDecay().convertToDouble(), p);
  NodeId rate = rows.cast(rows.neg(lr), rows.typeOf(p));
  return setUpdated(rows, *this, {rows.fma(rate, gradient, p)});
}

LogicalResult SgdOp::evaluate(Operands operands, Results results) {
  if (keepIfSkipped(*this, operands, results))
    return success();
  const HostTensor &p = *operands[0], &g = *operands[1];
  double factor = operands[2]->reals[0], rate = operands[3]->reals[0];
  double decay = getWeightDecay().convertToDouble();
  for (int64_t i = 0, e = p.size(); i < e; ++i)
    results[0].reals[i] =
        p.reals[i] - rate * (factor * g.reals[i] + decay * p.reals[i]);
  setCopy(*this, results);
  return success();
}

UpdateDescription SgdOp::describeUpdate() {
  return {"sgd", {}, getWeightDecay().convertToDouble()};
}

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
  return setUpdated(rows, *this, {rows.fma(rate, direction, p), velocity});
}

LogicalResult MomentumOp::evaluate(Operands operands, Results results) {
  if (keepIfSkipped(*this, operands, results))
    return success();
  const HostTensor &p = *operands[0], &b = *operands[1], &g = *operands[2];
  double factor = operands[3]->reals[0], rate = operands[4]->reals[0];
  double mu = getMu().convertToDouble();
  double decay = getWeightDecay().convertToDouble();
  for (int64_t i = 0, e = p.size(); i < e; ++i) {
    double gradient = factor * g.reals[i] + decay * p.reals[i];
    double velocity = mu * b.reals[i] + gradient;
    double direction = getNesterov() ? gradient + mu * velocity : velocity;
    results[0].reals[i] = p.reals[i] - rate * direction;
    results[1].reals[i] = velocity;
  }
  setCopy(*this, results);
  return success();
}

UpdateDescription MomentumOp::describeUpdate() {
  return {getNesterov() ? "nesterov" : "momentum",
          {{"momentum", getMu().convertToDouble()}},
          getWeightDecay().convertToDouble()};
}
