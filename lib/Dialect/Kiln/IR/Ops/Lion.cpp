//===- Lion.cpp - Update op of Lion -----------------------------*- C++ -*-===//
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

/// Emits the sign of x: 1, 0 or -1, and 0 for NaN.
static NodeId signOf(RowBuilder &rows, NodeId x) {
  NodeId zero = rows.constantLike(0, x);
  NodeId negative = rows.select(rows.less(x, zero), rows.constantLike(-1, x),
                                rows.constantLike(0, x));
  return rows.select(rows.less(zero, x), rows.constantLike(1, x), negative);
}

LogicalResult LionOp::buildRows(RowBuilder &rows) {
  NodeId p = rows.full(getP()), m = rows.full(getM()), g = rows.full(getG());
  NodeId factor = rows.scalar(getFactor()), lr = rows.scalar(getLr());
  if (!areValid({p, m, g, factor, lr}))
    return failure();
  row::Type type = rows.typeOf(p);
  NodeId gradient = decayedGradient(rows, factor, g, /*decay=*/0, p);
  auto mix = [&](double beta) {
    return rows.fma(rows.constantLike(beta, m), m,
                    rows.mul(rows.constantLike(1 - beta, m), gradient));
  };
  NodeId kept = p;
  if (double decay = getWeightDecay().convertToDouble()) {
    NodeId shrink =
        rows.sub(rows.constant(1, row::Type::F64),
                 rows.mul(lr, rows.constant(decay, row::Type::F64)));
    kept = rows.mul(p, rows.cast(shrink, type));
  }
  NodeId direction = signOf(rows, mix(getBeta1().convertToDouble()));
  NodeId moved = rows.fma(rows.cast(rows.neg(lr), type), direction, kept);
  return setUpdated(rows, *this, {moved, mix(getBeta2().convertToDouble())});
}

LogicalResult LionOp::evaluate(Operands operands, Results results) {
  if (keepIfSkipped(*this, operands, results))
    return success();
  const HostTensor &p = *operands[0], &m = *operands[1], &g = *operands[2];
  double factor = operands[3]->reals[0], rate = operands[4]->reals[0];
  double beta1 = getBeta1().convertToDouble();
  double beta2 = getBeta2().convertToDouble();
  double decay = getWeightDecay().convertToDouble();
  for (int64_t i = 0, e = p.size(); i < e; ++i) {
    double gradient = factor * g.reals[i];
    double mixed = beta1 * m.reals[i] + (1 - beta1) * gradient;
    double sign = mixed > 0 ? 1 : mixed < 0 ? -1 : 0;
    results[0].reals[i] = p.reals[i] * (1 - rate * decay) - rate * sign;
    results[1].reals[i] = beta2 * m.reals[i] + (1 - beta2) * gradient;
  }
  setCopy(*this, results);
  return success();
}

UpdateDescription LionOp::describeUpdate() {
  return {"lion",
          {{"beta1", getBeta1().convertToDouble()},
           {"beta2", getBeta2().convertToDouble()}},
          getWeightDecay().convertToDouble()};
}
