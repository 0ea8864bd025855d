//===- KilnRowsElementwise.cpp - Row programs of elementwise ops ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// RowOpInterface of arithmetic, activations and their gradients, casts and
// constants: one element in, one element out, in any row space.
//
//===----------------------------------------------------------------------===//

#include "RowSpaces.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

using NodeId = row::NodeId;
using Kind = row::Kind;

namespace {

LogicalResult buildUnary(RowBuilder &rows, Value x, Value y,
                         function_ref<NodeId(NodeId)> formula) {
  NodeId a = rows.full(x);
  if (a < 0)
    return failure();
  rows.set(y, formula(a));
  return success();
}

LogicalResult buildBinary(RowBuilder &rows, Value x0, Value x1, Value y,
                          function_ref<NodeId(NodeId, NodeId)> formula) {
  NodeId a = rows.full(x0), b = rows.full(x1);
  if (!areValid({a, b}))
    return failure();
  rows.set(y, formula(a, b));
  return success();
}

/// 1 + exp(-x).
NodeId onePlusExpNeg(RowBuilder &rows, NodeId x) {
  return rows.add(rows.unary(Kind::Exp, rows.neg(x)), rows.constantLike(1, x));
}

/// sigmoid(x) * (1 + x * (1 - sigmoid(x))).
NodeId siluDerivative(RowBuilder &rows, NodeId x) {
  NodeId one = rows.constantLike(1, x);
  NodeId s = rows.unary(Kind::Sigmoid, x);
  return rows.mul(s, rows.fma(x, rows.sub(one, s), one));
}

const double kSqrt2OverPi = std::sqrt(2 / M_PI);
constexpr double kCubic = 0.044715;

/// 2u = x * 2 sqrt(2/pi) (1 + 0.044715 x^2).
NodeId twiceGeluArgument(RowBuilder &rows, NodeId x) {
  NodeId square = rows.mul(x, x);
  return rows.mul(x, rows.fma(square,
                              rows.constantLike(2 * kSqrt2OverPi * kCubic, x),
                              rows.constantLike(2 * kSqrt2OverPi, x)));
}

/// 1/2 (1 + erf(x / sqrt 2)).
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
  // Bounded, so that e * s stays a number where s has vanished.
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

#define KILN_UNARY(OP, KIND)                                                   \
  RowSpace OP::getRowSpace() { return flexibleRows(getY()); }                  \
  LogicalResult OP::buildRows(RowBuilder &rows) {                              \
    return buildUnary(rows, getX(), getY(),                                    \
                      [&](NodeId x) { return rows.unary(Kind::KIND, x); });    \
  }
#define KILN_BINARY(OP, KIND)                                                  \
  RowSpace OP::getRowSpace() { return flexibleRows(getY()); }                  \
  LogicalResult OP::buildRows(RowBuilder &rows) {                              \
    return buildBinary(rows, getA(), getB(), getY(), [&](NodeId a, NodeId b) { \
      return rows.binary(Kind::KIND, a, b);                                    \
    });                                                                        \
  }

KILN_UNARY(NegOp, Neg)
KILN_UNARY(ExpOp, Exp)
KILN_UNARY(LogOp, Log)
KILN_UNARY(SqrtOp, Sqrt)
KILN_UNARY(TanhOp, Tanh)
KILN_UNARY(SigmoidOp, Sigmoid)
KILN_BINARY(AddOp, Add)
KILN_BINARY(SubOp, Sub)
KILN_BINARY(MulOp, Mul)
KILN_BINARY(DivOp, Div)

#undef KILN_UNARY
#undef KILN_BINARY

RowSpace RsqrtOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult RsqrtOp::buildRows(RowBuilder &rows) {
  return buildUnary(rows, getX(), getY(), [&](NodeId x) {
    return rows.div(rows.constantLike(1, x), rows.unary(Kind::Sqrt, x));
  });
}

RowSpace ScaleOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult ScaleOp::buildRows(RowBuilder &rows) {
  return buildUnary(rows, getX(), getY(), [&](NodeId x) {
    return rows.mul(rows.constantLike(getFactor().convertToDouble(), x), x);
  });
}

//===----------------------------------------------------------------------===//
// Activations
//===----------------------------------------------------------------------===//

RowSpace ReluOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult ReluOp::buildRows(RowBuilder &rows) {
  return buildUnary(rows, getX(), getY(), [&](NodeId x) {
    return rows.binary(Kind::Max, x, rows.constantLike(0, x));
  });
}

RowSpace SiluOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult SiluOp::buildRows(RowBuilder &rows) {
  return buildUnary(rows, getX(), getY(), [&](NodeId x) {
    return rows.div(x, onePlusExpNeg(rows, x));
  });
}

RowSpace GeluOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult GeluOp::buildRows(RowBuilder &rows) {
  return buildUnary(rows, getX(), getY(),
                    [&](NodeId x) { return gelu(rows, x, getTanh()); });
}

RowSpace SwigluOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult SwigluOp::buildRows(RowBuilder &rows) {
  return buildBinary(rows, getA(), getB(), getY(), [&](NodeId a, NodeId b) {
    return rows.mul(rows.div(a, onePlusExpNeg(rows, a)), b);
  });
}

//===----------------------------------------------------------------------===//
// Gradients of activations
//===----------------------------------------------------------------------===//

RowSpace ReluGradOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult ReluGradOp::buildRows(RowBuilder &rows) {
  return buildBinary(rows, getA(), getB(), getY(), [&](NodeId a, NodeId b) {
    NodeId zero = rows.constantLike(0, a);
    return rows.select(rows.less(zero, a), b, zero);
  });
}

RowSpace SiluGradOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult SiluGradOp::buildRows(RowBuilder &rows) {
  return buildBinary(rows, getA(), getB(), getY(), [&](NodeId a, NodeId b) {
    return rows.mul(b, siluDerivative(rows, a));
  });
}

RowSpace GeluGradOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult GeluGradOp::buildRows(RowBuilder &rows) {
  return buildBinary(rows, getA(), getB(), getY(), [&](NodeId a, NodeId b) {
    return rows.mul(b, geluDerivative(rows, a, getTanh()));
  });
}

RowSpace SwigluGradOp::getRowSpace() { return flexibleRows(getDa()); }
LogicalResult SwigluGradOp::buildRows(RowBuilder &rows) {
  NodeId a = rows.full(getA()), b = rows.full(getB()), dy = rows.full(getDy());
  if (!areValid({a, b, dy}))
    return failure();
  rows.set(getDa(), rows.mul(rows.mul(dy, b), siluDerivative(rows, a)));
  rows.set(getDb(), rows.mul(rows.mul(dy, a), rows.unary(Kind::Sigmoid, a)));
  return success();
}

//===----------------------------------------------------------------------===//
// Constants and conversions
//===----------------------------------------------------------------------===//

static row::Type rowTypeOf(Value value) {
  return computeType(elementTypeOf(value.getType()));
}

RowSpace ConstantOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult ConstantOp::buildRows(RowBuilder &rows) {
  rows.set(getY(), rows.constant(getSplat(), rowTypeOf(getY())));
  return success();
}

RowSpace CastOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult CastOp::buildRows(RowBuilder &rows) {
  // From f64 to a narrow float by way of f32 would be two roundings: one is
  // made where the result is set.
  bool isRoundedOnce =
      getX().getType().getElementType().isF64() && isNarrowFloat(getType());
  return buildUnary(rows, getX(), getY(), [&](NodeId x) {
    return isRoundedOnce ? x : rows.cast(x, rowTypeOf(getY()));
  });
}
