//===- KilnReferenceElementwise.cpp - Reference of elementwise ops --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ReferenceOpInterface of the elementwise ops: the formula of each op's
// description, once per element, in f64. Results come in as zeros of the type
// they are evaluated in, which may be wider than the type in the IR.
//
//===----------------------------------------------------------------------===//

#include "kiln/Abi/TanhGelu.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <cmath>

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

using Operands = ArrayRef<const HostTensor *>;
using Results = MutableArrayRef<HostTensor>;

template <typename Formula>
static LogicalResult mapUnary(Operands operands, Results results,
                              Formula formula) {
  const HostTensor &x = *operands[0];
  for (int64_t i = 0, e = x.size(); i < e; ++i)
    results[0].reals[i] = formula(x.reals[i]);
  return success();
}

template <typename Formula>
static LogicalResult mapBinary(Operands operands, Results results,
                               Formula formula) {
  const HostTensor &a = *operands[0], &b = *operands[1];
  for (int64_t i = 0, e = a.size(); i < e; ++i)
    results[0].reals[i] = formula(a.reals[i], b.reals[i]);
  return success();
}

static double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

/// d/dx of x * sigmoid(x).
static double siluDerivative(double x) {
  double s = sigmoid(x);
  return s * (1 + x * (1 - s));
}

static double gelu(double x, bool tanhForm) {
  return tanhForm ? tanhGelu(x) : 0.5 * x * (1 + std::erf(x / std::sqrt(2.0)));
}

static double geluDerivative(double x, bool tanhForm) {
  if (tanhForm)
    return tanhGeluDerivative(x);
  return 0.5 * (1 + std::erf(x / std::sqrt(2.0))) +
         x * std::exp(-0.5 * x * x) / std::sqrt(2 * M_PI);
}

LogicalResult NegOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return -x; });
}

LogicalResult ExpOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return std::exp(x); });
}

LogicalResult LogOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return std::log(x); });
}

LogicalResult SqrtOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return std::sqrt(x); });
}

LogicalResult RsqrtOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return 1 / std::sqrt(x); });
}

LogicalResult TanhOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return std::tanh(x); });
}

LogicalResult SigmoidOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, sigmoid);
}

LogicalResult AddOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results, [](double a, double b) { return a + b; });
}

LogicalResult SubOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results, [](double a, double b) { return a - b; });
}

LogicalResult MulOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results, [](double a, double b) { return a * b; });
}

LogicalResult DivOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results, [](double a, double b) { return a / b; });
}

LogicalResult ScaleOp::evaluate(Operands operands, Results results) {
  double factor = getFactor().convertToDouble();
  if (fullPrecision(results[0].type).getElementType().isF32())
    factor = static_cast<float>(factor);
  return mapUnary(operands, results, [=](double x) { return factor * x; });
}

LogicalResult ReluOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) {
    return std::isnan(x) ? x : x > 0 ? x : 0.0;
  });
}

LogicalResult SiluOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results,
                  [](double x) { return x / (1 + std::exp(-x)); });
}

LogicalResult GeluOp::evaluate(Operands operands, Results results) {
  bool tanhForm = getTanh();
  return mapUnary(operands, results,
                  [=](double x) { return gelu(x, tanhForm); });
}

LogicalResult SwigluOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results, [](double a, double b) {
    return a / (1 + std::exp(-a)) * b;
  });
}

LogicalResult ReluGradOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results,
                   [](double a, double b) { return a > 0 ? b : 0.0; });
}

LogicalResult SiluGradOp::evaluate(Operands operands, Results results) {
  return mapBinary(operands, results,
                   [](double a, double b) { return b * siluDerivative(a); });
}

LogicalResult GeluGradOp::evaluate(Operands operands, Results results) {
  bool tanhForm = getTanh();
  return mapBinary(operands, results, [=](double a, double b) {
    return b * geluDerivative(a, tanhForm);
  });
}

LogicalResult SwigluGradOp::evaluate(Operands operands, Results results) {
  const HostTensor &a = *operands[0], &b = *operands[1], &dy = *operands[2];
  for (int64_t i = 0, e = a.size(); i < e; ++i) {
    results[0].reals[i] = dy.reals[i] * b.reals[i] * siluDerivative(a.reals[i]);
    results[1].reals[i] = dy.reals[i] * a.reals[i] * sigmoid(a.reals[i]);
  }
  return success();
}

LogicalResult ConstantOp::evaluate(Operands operands, Results results) {
  results[0].reals.assign(results[0].size(), getSplat());
  return success();
}

LogicalResult CastOp::evaluate(Operands operands, Results results) {
  return mapUnary(operands, results, [](double x) { return x; });
}
