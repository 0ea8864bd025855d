//===- GradientRules.h - Helpers that build gradient ops --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A derivative may use any primal value; every value that it uses is a
// residual. The derivatives of cheap ops are built from primitive ops, so that
// fusion can optimize them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_GRADIENTRULES_H
#define KILN_DIALECT_KILN_IR_GRADIENTRULES_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "mlir/IR/Matchers.h"

#include <numeric>

namespace kiln::gradients {

using namespace mlir;

using Gradients = MutableArrayRef<Value>;
using Wanted = ArrayRef<bool>;

/// Builds the ops of one gradient at the location of the primal op.
struct Rule {
  OpBuilder &builder;
  Location loc;

  Rule(OpBuilder &builder, Operation *op)
      : builder(builder), loc(op->getLoc()) {}

  Value neg(Value a) { return NegOp::create(builder, loc, a); }
  Value add(Value a, Value b) { return AddOp::create(builder, loc, a, b); }
  Value sub(Value a, Value b) { return SubOp::create(builder, loc, a, b); }
  Value mul(Value a, Value b) { return MulOp::create(builder, loc, a, b); }
  Value div(Value a, Value b) { return DivOp::create(builder, loc, a, b); }
  /// Casts `a` to full precision, such as bf16 to f32.
  Value widen(Value a) {
    return builder.createOrFold<CastOp>(loc, fullPrecision(tensorTypeOf(a)), a);
  }
  /// Casts `gradient` to the type of `primal`.
  Value like(Value primal, Value gradient) {
    return builder.createOrFold<CastOp>(loc, primal.getType(), gradient);
  }
  Value scale(Value a, double factor) {
    return ScaleOp::create(builder, loc, a, builder.getF64FloatAttr(factor));
  }
  Value constantLike(Value like, double value) {
    return ConstantOp::create(builder, loc, tensorTypeOf(like), value);
  }
  Value broadcast(Value x, Type type, ArrayRef<int64_t> dims) {
    return BroadcastOp::create(builder, loc, type, x, dims);
  }
  Value reduce(Reduction kind, Value x, Type type, ArrayRef<int64_t> dims) {
    return ReduceOp::create(builder, loc, type, kind, x, dims);
  }
  /// Broadcasts one value per row along the last dimension.
  Value perRow(Value x, Type type) {
    SmallVector<int64_t> dims(tensorTypeOf(x).getRank());
    std::iota(dims.begin(), dims.end(), 0);
    return broadcast(x, type, dims);
  }
  /// Broadcasts one value per column over all rows.
  Value perColumn(Value x, Type type) {
    return broadcast(x, type, cast<RankedTensorType>(type).getRank() - 1);
  }
  Value sumRow(Value x, Type type) {
    return reduce(Reduction::Sum, x, type, tensorTypeOf(x).getRank() - 1);
  }
  Value sumColumns(Value x, Type type) {
    SmallVector<int64_t> dims(tensorTypeOf(x).getRank() - 1);
    std::iota(dims.begin(), dims.end(), 0);
    return reduce(Reduction::Sum, x, type, dims);
  }
  Value matmul(Value a, Value b, bool transA, bool transB) {
    return MatmulOp::create(builder, loc, a, b, transA, transB);
  }
  /// Multiplies `gradient`, which was computed for a cotangent of 1, by the
  /// rank-0 f64 value `cotangent`.
  Value timesCotangent(Value gradient, Value cotangent) {
    DenseElementsAttr constant;
    if (matchPattern(cotangent, m_Constant(&constant))) {
      double factor = constant.getSplatValue<APFloat>().convertToDouble();
      return factor == 1.0 ? gradient : scale(gradient, factor);
    }
    // Multiply in full precision: the cotangent may exceed the range of f16.
    auto type = tensorTypeOf(gradient), full = fullPrecision(type);
    auto scalar = RankedTensorType::get({}, full.getElementType());
    cotangent = builder.createOrFold<CastOp>(loc, scalar, cotangent);
    Value wide = builder.createOrFold<CastOp>(loc, full, gradient);
    return builder.createOrFold<CastOp>(
        loc, type, mul(wide, broadcast(cotangent, full, {})));
  }
};

} // namespace kiln::gradients

/// Defines buildGradient of the unary op OP. EXPRESSION is the gradient of x
/// and may use r, x, y and dy.
#define KILN_UNARY_GRADIENT(OP, EXPRESSION)                                    \
  LogicalResult OP::buildGradient(OpBuilder &builder, ValueRange cotangents,   \
                                  Wanted wanted, Gradients gradients) {        \
    Rule r(builder, *this);                                                    \
    [[maybe_unused]] Value x = getX(), y = getY(), dy = cotangents[0];         \
    gradients[0] = EXPRESSION;                                                 \
    return success();                                                          \
  }

#endif // KILN_DIALECT_KILN_IR_GRADIENTRULES_H
