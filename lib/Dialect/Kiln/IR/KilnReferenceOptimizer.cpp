//===- KilnReferenceOptimizer.cpp - Reference of optimizer updates --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ReferenceOpInterface of the update rules, element by element in f64.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

using Operands = ArrayRef<const HostTensor *>;
using Results = MutableArrayRef<HostTensor>;

LogicalResult AdamOp::evaluate(Operands operands, Results results) {
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
  return success();
}

LogicalResult SgdOp::evaluate(Operands operands, Results results) {
  const HostTensor &p = *operands[0], &g = *operands[1];
  double factor = operands[2]->reals[0], rate = operands[3]->reals[0];
  double decay = getWeightDecay().convertToDouble();
  for (int64_t i = 0, e = p.size(); i < e; ++i)
    results[0].reals[i] =
        p.reals[i] - rate * (factor * g.reals[i] + decay * p.reals[i]);
  return success();
}

LogicalResult MomentumOp::evaluate(Operands operands, Results results) {
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
  return success();
}
