//===- Adam.cpp - Update op of Adam and AdamW -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "UpdateOps.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

using NodeId = row::NodeId;
using Kind = row::Kind;
using Operands = ArrayRef<const HostTensor *>;
using Results = MutableArrayRef<HostTensor>;

/// Emits 1 - beta^step in f64.
static NodeId biasCorrection(RowBuilder &rows, double beta, NodeId step) {
  NodeId one = rows.constant(1, row::Type::F64);
  NodeId base = rows.constant(beta, row::Type::F64);
  return rows.sub(one, rows.powInt(base, step));
}

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
  return setUpdated(rows, *this,
                    {rows.fma(rows.cast(rows.neg(rate), type),
                              rows.div(first, denominator), kept),
                     first, second});
}

LogicalResult AdamOp::evaluate(Operands operands, Results results) {
  if (keepIfSkipped(*this, operands, results))
    return success();
  const HostTensor &p = *operands[0], &m = *operands[1], &v = *operands[2];
  const HostTensor &g = *operands[3];
  double factor = operands[4]->reals[0], rate = operands[5]->reals[0];
  double step = static_cast<double>(operands[6]->integers[0]);
  double beta1 = getBeta1().convertToDouble();
  double beta2 = getBeta2().convertToDouble();
  double eps = getEps().convertToDouble();
  double decay = getWeightDecay().convertToDouble();
  double correction1 = 1 - std::pow(beta1, step);
  double correction2 = 1 - std::pow(beta2, step);
  for (int64_t i = 0, e = p.size(); i < e; ++i) {
    double gradient = factor * g.reals[i];
    double decayed = p.reals[i];
    if (getDecoupled())
      decayed *= 1 - rate * decay;
    else
      gradient += decay * p.reals[i];
    double first = beta1 * m.reals[i] + (1 - beta1) * gradient;
    double second = beta2 * v.reals[i] + (1 - beta2) * gradient * gradient;
    double denominator = std::sqrt(second) / std::sqrt(correction2) + eps;
    results[0].reals[i] = decayed - rate / correction1 * first / denominator;
    results[1].reals[i] = first;
    results[2].reals[i] = second;
  }
  setCopy(*this, results);
  return success();
}

UpdateDescription AdamOp::describeUpdate() {
  return {getDecoupled() ? "adamw" : "adam",
          {{"beta1", getBeta1().convertToDouble()},
           {"beta2", getBeta2().convertToDouble()},
           {"eps", getEps().convertToDouble()}},
          getWeightDecay().convertToDouble()};
}
