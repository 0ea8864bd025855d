//===- Activations.cpp - Activation ops and their gradients -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An activation has a gradient op of its own if a composition of primitive ops
// would lose precision or need more residuals.
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
#include "ReferenceRules.h"
#include "RowSpaces.h"
#include "kiln/Abi/TanhGelu.h"

#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::abi;
using namespace kiln::gradients;
using namespace kiln::reference;

using NodeId = row::NodeId;
using Kind = row::Kind;

//===----------------------------------------------------------------------===//
// relu
//===----------------------------------------------------------------------===//

bool ReluOp::isCheapToRebuild() { return true; }
Rounding ReluOp::getRounding() { return Rounding::Nothing; }

KILN_UNARY_GRADIENT(ReluOp, ReluGradOp::create(builder, getLoc(), x, dy))

RowSpace ReluOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult ReluOp::buildRows(RowBuilder &rows) {
  return buildUnary(rows, getX(), getY(), [&](NodeId x) {
    return rows.binary(Kind::Max, x, rows.constantLike(0, x));
  });
}

LogicalResult ReluOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) {
    return std::isnan(x) ? x : x > 0 ? x : 0.0;
  });
}

Rounding ReluGradOp::getRounding() { return Rounding::Nothing; }

RowSpace ReluGradOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult ReluGradOp::buildRows(RowBuilder &rows) {
  return buildBinary(rows, getA(), getB(), getY(), [&](NodeId a, NodeId b) {
    NodeId zero = rows.constantLike(0, a);
    return rows.select(rows.less(zero, a), b, zero);
  });
}

LogicalResult ReluGradOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results,
                   [](double a, double b) { return a > 0 ? b : 0.0; });
}

//===----------------------------------------------------------------------===//
// softplus
//===----------------------------------------------------------------------===//

Precision SoftplusOp::getPrecision() { return Precision::Full; }
Rounding SoftplusOp::getRounding() { return Rounding::Results; }

KILN_UNARY_GRADIENT(SoftplusOp,
                    r.mul(dy, SigmoidOp::create(builder, getLoc(), x)))

RowSpace SoftplusOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult SoftplusOp::buildRows(RowBuilder &rows) {
  return buildUnary(rows, getX(), getY(), [&](NodeId x) {
    NodeId one = rows.constantLike(1, x);
    NodeId e = rows.unary(Kind::Exp, rows.neg(rows.unary(Kind::Abs, x)));
    NodeId u = rows.add(one, e);
    // log1p(e) = log(u) * e / (u - 1) for the rounded u = 1 + e. The quotient e
    // / (u - 1) corrects the rounding error of u.
    NodeId log =
        rows.mul(rows.unary(Kind::Log, u), rows.div(e, rows.sub(u, one)));
    return rows.add(rows.binary(Kind::Max, x, rows.constantLike(0, x)),
                    rows.select(rows.equal(u, one), e, log));
  });
}

LogicalResult SoftplusOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) {
    return std::fmax(x, 0) + std::log1p(std::exp(-std::abs(x)));
  });
}

//===----------------------------------------------------------------------===//
// silu and swiglu
//===----------------------------------------------------------------------===//

namespace {

/// Emits 1 + exp(-x).
NodeId onePlusExpNeg(RowBuilder &rows, NodeId x) {
  return rows.add(rows.unary(Kind::Exp, rows.neg(x)), rows.constantLike(1, x));
}

/// Emits d/dx of x * sigmoid(x), which is
/// sigmoid(x) * (1 + x * (1 - sigmoid(x))).
NodeId siluDerivative(RowBuilder &rows, NodeId x) {
  NodeId one = rows.constantLike(1, x);
  NodeId s = rows.unary(Kind::Sigmoid, x);
  return rows.mul(s, rows.fma(x, rows.sub(one, s), one));
}

} // namespace

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// Returns d/dx of x * sigmoid(x).
static double siluDerivative(double x) {
  double s = sigmoid(x);
  return s * (1 + x * (1 - s));
}

bool SiluOp::isCheapToRebuild() { return true; }
Rounding SiluOp::getRounding() { return Rounding::Results; }

KILN_UNARY_GRADIENT(SiluOp, SiluGradOp::create(builder, getLoc(), x, dy))

RowSpace SiluOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult SiluOp::buildRows(RowBuilder &rows) {
  return buildUnary(rows, getX(), getY(), [&](NodeId x) {
    return rows.div(x, onePlusExpNeg(rows, x));
  });
}

LogicalResult SiluOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results,
                  [](double x) { return x / (1 + std::exp(-x)); });
}

Rounding SiluGradOp::getRounding() { return Rounding::Inside; }

RowSpace SiluGradOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult SiluGradOp::buildRows(RowBuilder &rows) {
  return buildBinary(rows, getA(), getB(), getY(), [&](NodeId a, NodeId b) {
    return rows.mul(b, siluDerivative(rows, a));
  });
}

LogicalResult SiluGradOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results,
                   [](double a, double b) { return b * siluDerivative(a); });
}

bool SwigluOp::isCheapToRebuild() { return true; }
Rounding SwigluOp::getRounding() { return Rounding::Results; }

LogicalResult SwigluOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                      Wanted, Gradients gradients) {
  auto gradient = SwigluGradOp::create(builder, getLoc(), getType(), getType(),
                                       getA(), getB(), cotangents[0]);
  gradients[0] = gradient.getDa();
  gradients[1] = gradient.getDb();
  return success();
}

RowSpace SwigluOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult SwigluOp::buildRows(RowBuilder &rows) {
  return buildBinary(rows, getA(), getB(), getY(), [&](NodeId a, NodeId b) {
    return rows.mul(rows.div(a, onePlusExpNeg(rows, a)), b);
  });
}

LogicalResult SwigluOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results, [](double a, double b) {
    return a / (1 + std::exp(-a)) * b;
  });
}

Rounding SwigluGradOp::getRounding() { return Rounding::Inside; }

RowSpace SwigluGradOp::getRowSpace() { return flexibleRows(getDa()); }
LogicalResult SwigluGradOp::buildRows(RowBuilder &rows) {
  NodeId a = rows.full(getA()), b = rows.full(getB()), dy = rows.full(getDy());
  if (!areValid({a, b, dy}))
    return failure();
  rows.set(getDa(), rows.mul(rows.mul(dy, b), siluDerivative(rows, a)));
  rows.set(getDb(), rows.mul(rows.mul(dy, a), rows.unary(Kind::Sigmoid, a)));
  return success();
}

LogicalResult SwigluGradOp::evaluate(Operands operands, Results results) {
  const HostTensor &a = *operands[0], &b = *operands[1], &dy = *operands[2];
  for (int64_t i = 0, e = a.size(); i < e; ++i) {
    results[0].reals[i] = dy.reals[i] * b.reals[i] * siluDerivative(a.reals[i]);
    results[1].reals[i] = dy.reals[i] * a.reals[i] * sigmoid(a.reals[i]);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// gelu
//===----------------------------------------------------------------------===//

namespace {

const double kSqrt2OverPi = std::sqrt(2 / M_PI);
constexpr double kCubic = 0.044715;

/// Emits 2u, where u = sqrt(2/pi) (x + 0.044715 x^3) is the argument of tanh in
/// gelu.
NodeId twiceGeluArgument(RowBuilder &rows, NodeId x) {
  NodeId square = rows.mul(x, x);
  return rows.mul(x, rows.fma(square,
                              rows.constantLike(2 * kSqrt2OverPi * kCubic, x),
                              rows.constantLike(2 * kSqrt2OverPi, x)));
}

/// Emits 1/2 (1 + erf(x / sqrt(2))).
NodeId normalCdf(RowBuilder &rows, NodeId x) {
  NodeId half = rows.constantLike(0.5, x);
  NodeId scaled = rows.mul(x, rows.constantLike(std::sqrt(0.5), x));
  return rows.fma(rows.unary(Kind::Erf, scaled), half, half);
}

NodeId gelu(RowBuilder &rows, NodeId x, bool tanhForm) {
  if (!tanhForm)
    return rows.mul(x, normalCdf(rows, x));
  return rows.div(x, onePlusExpNeg(rows, twiceGeluArgument(rows, x)));
}

NodeId geluDerivative(RowBuilder &rows, NodeId x, bool tanhForm) {
  NodeId square = rows.mul(x, x);
  if (!tanhForm) {
    NodeId density = rows.mul(
        rows.unary(Kind::Exp, rows.mul(square, rows.constantLike(-0.5, x))),
        rows.constantLike(1 / std::sqrt(2 * M_PI), x));
    return rows.fma(x, density, normalCdf(rows, x));
  }
  NodeId one = rows.constantLike(1, x);
  // The bound keeps e finite, because e * s would be NaN for e = inf, s = 0.
  NodeId e = rows.binary(
      Kind::Min, rows.unary(Kind::Exp, rows.neg(twiceGeluArgument(rows, x))),
      rows.constantLike(0x1p125, x));
  NodeId s = rows.div(one, rows.add(one, e));
  NodeId slope =
      rows.fma(square, rows.constantLike(6 * kSqrt2OverPi * kCubic, x),
               rows.constantLike(2 * kSqrt2OverPi, x));
  return rows.fma(rows.mul(x, slope), rows.mul(rows.mul(e, s), s), s);
}

} // namespace

static double gelu(double x, bool tanhForm) {
  return tanhForm ? tanhGelu(x) : 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

static double geluDerivative(double x, bool tanhForm) {
  if (tanhForm)
    return tanhGeluDerivative(x);
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) +
         x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}

bool GeluOp::isCheapToRebuild() { return true; }
Rounding GeluOp::getRounding() { return Rounding::Results; }

KILN_UNARY_GRADIENT(GeluOp, GeluGradOp::create(builder, getLoc(), x.getType(),
                                               x, dy, getTanh()))

RowSpace GeluOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult GeluOp::buildRows(RowBuilder &rows) {
  return buildUnary(rows, getX(), getY(),
                    [&](NodeId x) { return gelu(rows, x, getTanh()); });
}

LogicalResult GeluOp::evaluate(Operands operands, Results results) {
  bool tanhForm = getTanh();
  return mapUnary(operands, results,
                  [=](double x) { return gelu(x, tanhForm); });
}

Rounding GeluGradOp::getRounding() { return Rounding::Inside; }

RowSpace GeluGradOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult GeluGradOp::buildRows(RowBuilder &rows) {
  return buildBinary(rows, getA(), getB(), getY(), [&](NodeId a, NodeId b) {
    return rows.mul(b, geluDerivative(rows, a, getTanh()));
  });
}

LogicalResult GeluGradOp::evaluate(Operands operands, Results results) {
  bool tanhForm = getTanh();
  return mapBinary(operands, results, [=](double a, double b) {
    return b * geluDerivative(a, tanhForm);
  });
}
