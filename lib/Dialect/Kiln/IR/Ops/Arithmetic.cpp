//===- Arithmetic.cpp - Elementwise arithmetic and functions ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements all interfaces of the elementwise ops: gradient, row program,
// reference, rounding, mixed precision and sequence analysis.
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
#include "ReferenceRules.h"
#include "RowSpaces.h"
#include "SequenceRules.h"

#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::gradients;
using namespace kiln::reference;
using namespace kiln::sequences;

using NodeId = row::NodeId;
using Kind = row::Kind;

#define KILN_UNARY_ROWS(OP, KIND)                                              \
  RowSpace OP::getRowSpace() { return flexibleRows(getY()); }                  \
  LogicalResult OP::buildRows(RowBuilder &rows) {                              \
    return buildUnary(rows, getX(), getY(),                                    \
                      [&](NodeId x) { return rows.unary(Kind::KIND, x); });    \
  }
#define KILN_BINARY_ROWS(OP, KIND)                                             \
  RowSpace OP::getRowSpace() { return flexibleRows(getY()); }                  \
  LogicalResult OP::buildRows(RowBuilder &rows) {                              \
    return buildBinary(rows, getA(), getB(), getY(), [&](NodeId a, NodeId b) { \
      return rows.binary(Kind::KIND, a, b);                                    \
    });                                                                        \
  }

//===----------------------------------------------------------------------===//
// Unary ops
//===----------------------------------------------------------------------===//

bool NegOp::isLinear() { return true; }
Rounding NegOp::getRounding() { return Rounding::Nothing; }

KILN_UNARY_GRADIENT(NegOp, r.neg(dy))
KILN_UNARY_ROWS(NegOp, Neg)

LogicalResult NegOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return -x; });
}

Precision ExpOp::getPrecision() { return Precision::Full; }
Rounding ExpOp::getRounding() { return Rounding::Results; }

KILN_UNARY_GRADIENT(ExpOp, r.mul(dy, y))
KILN_UNARY_ROWS(ExpOp, Exp)

LogicalResult ExpOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return std::exp(x); });
}

Precision LogOp::getPrecision() { return Precision::Full; }
Rounding LogOp::getRounding() { return Rounding::Results; }

KILN_UNARY_GRADIENT(LogOp, r.div(dy, x))
KILN_UNARY_ROWS(LogOp, Log)

LogicalResult LogOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return std::log(x); });
}

Rounding SqrtOp::getRounding() { return Rounding::Results; }

KILN_UNARY_GRADIENT(SqrtOp, r.div(r.scale(dy, 0.5), y))
KILN_UNARY_ROWS(SqrtOp, Sqrt)

LogicalResult SqrtOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return std::sqrt(x); });
}

Precision RsqrtOp::getPrecision() { return Precision::Full; }
Rounding RsqrtOp::getRounding() { return Rounding::Results; }

KILN_UNARY_GRADIENT(RsqrtOp, r.mul(r.scale(dy, -0.5), r.mul(y, r.mul(y, y))))

RowSpace RsqrtOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult RsqrtOp::buildRows(RowBuilder &rows) {
  return buildUnary(rows, getX(), getY(), [&](NodeId x) {
    return rows.div(rows.constantLike(1, x), rows.unary(Kind::Sqrt, x));
  });
}

LogicalResult RsqrtOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return 1 / std::sqrt(x); });
}

Rounding TanhOp::getRounding() { return Rounding::Results; }

KILN_UNARY_GRADIENT(TanhOp, r.mul(dy, r.sub(r.constantLike(y, 1), r.mul(y, y))))
KILN_UNARY_ROWS(TanhOp, Tanh)

LogicalResult TanhOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return std::tanh(x); });
}

static double sigmoidOf(double x) { return 1 / (1 + std::exp(-x)); }

Rounding SigmoidOp::getRounding() { return Rounding::Results; }

KILN_UNARY_GRADIENT(SigmoidOp,
                    r.mul(dy, r.mul(y, r.sub(r.constantLike(y, 1), y))))
KILN_UNARY_ROWS(SigmoidOp, Sigmoid)

LogicalResult SigmoidOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, sigmoidOf);
}

bool ScaleOp::isLinear() { return true; }
Rounding ScaleOp::getRounding() { return Rounding::Results; }

KILN_UNARY_GRADIENT(ScaleOp, r.scale(dy, getFactor().convertToDouble()))

RowSpace ScaleOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult ScaleOp::buildRows(RowBuilder &rows) {
  return buildUnary(rows, getX(), getY(), [&](NodeId x) {
    return rows.mul(rows.constantLike(getFactor().convertToDouble(), x), x);
  });
}

LogicalResult ScaleOp::evaluate(Operands operands, Results results) {
  double factor = getFactor().convertToDouble();
  if (fullPrecision(results[0].type).getElementType().isF32())
    factor = static_cast<float>(factor);
  return mapUnary(operands, results, [=](double x) { return factor * x; });
}

//===----------------------------------------------------------------------===//
// Binary ops
//===----------------------------------------------------------------------===//

bool AddOp::isLinear() { return true; }
Rounding AddOp::getRounding() { return Rounding::Results; }

LogicalResult AddOp::buildGradient(OpBuilder &, ValueRange cotangents, Wanted,
                                   Gradients gradients) {
  gradients[0] = gradients[1] = cotangents[0];
  return success();
}

KILN_BINARY_ROWS(AddOp, Add)

LogicalResult AddOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results, [](double a, double b) { return a + b; });
}

bool SubOp::isLinear() { return true; }
Rounding SubOp::getRounding() { return Rounding::Results; }

LogicalResult SubOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                   Wanted wanted, Gradients gradients) {
  gradients[0] = cotangents[0];
  if (wanted[1])
    gradients[1] = Rule(builder, *this).neg(cotangents[0]);
  return success();
}

KILN_BINARY_ROWS(SubOp, Sub)

LogicalResult SubOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results, [](double a, double b) { return a - b; });
}

/// Returns the SequenceFact of an elementwise product or quotient. `degree` is
/// the degree of the result in `loss_scale` (see Sequences.h). The op is linear
/// in the first operand. `bMayBeTotal` is true if the op is linear in the
/// second operand, too.
static SequenceFact inferProduct(Operation *op, Facts operands, int64_t degree,
                                 bool bMayBeTotal) {
  const SequenceFact &a = operands[0], &b = operands[1];
  if (findOpaque(operands) || a.isMixed() || b.isMixed())
    return explain(op, operands);
  if (allShared(operands))
    return SequenceFact::shared(degree, a.repeating & b.repeating);
  if (std::optional<int64_t> dim = commonDim(operands))
    return SequenceFact::perSequence(*dim, degree);
  if ((a.isTotal() && b.isShared()) ||
      (bMayBeTotal && a.isShared() && b.isTotal()))
    return SequenceFact::total(degree);
  return explain(op, operands);
}

Rounding MulOp::getRounding() { return Rounding::Results; }

LogicalResult MulOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                   Wanted wanted, Gradients gradients) {
  Rule r(builder, *this);
  if (wanted[0])
    gradients[0] = r.mul(cotangents[0], getB());
  if (wanted[1])
    gradients[1] = r.mul(cotangents[0], getA());
  return success();
}

void MulOp::inferSequences(Facts operands, int64_t, MutableFacts results) {
  results[0] = inferProduct(*this, operands,
                            operands[0].degree + operands[1].degree, true);
}

KILN_BINARY_ROWS(MulOp, Mul)

LogicalResult MulOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results, [](double a, double b) { return a * b; });
}

Rounding DivOp::getRounding() { return Rounding::Results; }

LogicalResult DivOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                   Wanted wanted, Gradients gradients) {
  Rule r(builder, *this);
  Value da = r.div(cotangents[0], getB());
  if (wanted[0])
    gradients[0] = da;
  if (wanted[1])
    gradients[1] = r.neg(r.mul(da, getY()));
  return success();
}

void DivOp::inferSequences(Facts operands, int64_t, MutableFacts results) {
  results[0] = inferProduct(*this, operands,
                            operands[0].degree - operands[1].degree, false);
}

KILN_BINARY_ROWS(DivOp, Div)

LogicalResult DivOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results, [](double a, double b) { return a / b; });
}
