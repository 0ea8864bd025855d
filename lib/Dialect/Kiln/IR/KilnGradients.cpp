//===- KilnGradients.cpp - Reverse-mode derivatives of kiln ops -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One buildGradient per differentiable op. A derivative refers to primal values
// only; what it refers to is a residual. Where an op is cheap the derivative is
// written in primitive ops, so that fusion sees through it.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/GradientType.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "mlir/IR/Matchers.h"

#include <cmath>
#include <numeric>

using namespace mlir;
using namespace kiln;

using Gradients = MutableArrayRef<Value>;
using Wanted = ArrayRef<bool>;

//===----------------------------------------------------------------------===//
// Shared pieces
//===----------------------------------------------------------------------===//

namespace {

/// Builds ops of one gradient at the location of its primal op.
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
  /// In f32 where it is bf16.
  Value widen(Value a) {
    return builder.createOrFold<CastOp>(loc, fullPrecision(tensorTypeOf(a)), a);
  }
  /// In the element type of `primal`.
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
  /// One value per row, repeated along the last dimension.
  Value perRow(Value x, Type type) {
    SmallVector<int64_t> dims(tensorTypeOf(x).getRank());
    std::iota(dims.begin(), dims.end(), 0);
    return broadcast(x, type, dims);
  }
  /// One value per column, repeated over all rows.
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
  /// `gradient` for a cotangent of one, times a rank-0 f64 cotangent.
  Value timesCotangent(Value gradient, Value cotangent) {
    DenseElementsAttr constant;
    if (matchPattern(cotangent, m_Constant(&constant))) {
      double factor = constant.getSplatValue<APFloat>().convertToDouble();
      return factor == 1.0 ? gradient : scale(gradient, factor);
    }
    auto type = tensorTypeOf(gradient);
    auto scalar = RankedTensorType::get({}, type.getElementType());
    if (scalar != cotangent.getType())
      cotangent = CastOp::create(builder, loc, scalar, cotangent);
    return mul(gradient, broadcast(cotangent, type, {}));
  }
};

} // namespace

//===----------------------------------------------------------------------===//
// Elementwise
//===----------------------------------------------------------------------===//

#define KILN_UNARY_GRADIENT(OP, EXPRESSION)                                    \
  LogicalResult OP::buildGradient(OpBuilder &builder, ValueRange cotangents,   \
                                  Wanted wanted, Gradients gradients) {        \
    Rule r(builder, *this);                                                    \
    [[maybe_unused]] Value x = getX(), y = getY(), dy = cotangents[0];         \
    gradients[0] = EXPRESSION;                                                 \
    return success();                                                          \
  }

KILN_UNARY_GRADIENT(NegOp, r.neg(dy))
KILN_UNARY_GRADIENT(ExpOp, r.mul(dy, y))
KILN_UNARY_GRADIENT(LogOp, r.div(dy, x))
KILN_UNARY_GRADIENT(SqrtOp, r.div(r.scale(dy, 0.5), y))
KILN_UNARY_GRADIENT(RsqrtOp, r.mul(r.scale(dy, -0.5), r.mul(y, r.mul(y, y))))
KILN_UNARY_GRADIENT(TanhOp, r.mul(dy, r.sub(r.constantLike(y, 1), r.mul(y, y))))
KILN_UNARY_GRADIENT(SigmoidOp,
                    r.mul(dy, r.mul(y, r.sub(r.constantLike(y, 1), y))))
KILN_UNARY_GRADIENT(ScaleOp, r.scale(dy, getFactor().convertToDouble()))
KILN_UNARY_GRADIENT(ReluOp, ReluGradOp::create(builder, getLoc(), x, dy))
KILN_UNARY_GRADIENT(SiluOp, SiluGradOp::create(builder, getLoc(), x, dy))
KILN_UNARY_GRADIENT(GeluOp, GeluGradOp::create(builder, getLoc(), x.getType(),
                                               x, dy, getTanh()))
KILN_UNARY_GRADIENT(CastOp, builder.createOrFold<CastOp>(
                                getLoc(), gradientType(tensorTypeOf(x)), dy))

#undef KILN_UNARY_GRADIENT

RankedTensorType kiln::gradientType(RankedTensorType type) {
  bool isOnlyStored = elementTypeOf(type) == ElementType::F16;
  return isOnlyStored ? fullPrecision(type) : type;
}

LogicalResult AddOp::buildGradient(OpBuilder &, ValueRange cotangents, Wanted,
                                   Gradients gradients) {
  gradients[0] = gradients[1] = cotangents[0];
  return success();
}

LogicalResult SubOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                   Wanted wanted, Gradients gradients) {
  gradients[0] = cotangents[0];
  if (wanted[1])
    gradients[1] = Rule(builder, *this).neg(cotangents[0]);
  return success();
}

LogicalResult MulOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                   Wanted wanted, Gradients gradients) {
  Rule r(builder, *this);
  if (wanted[0])
    gradients[0] = r.mul(cotangents[0], getB());
  if (wanted[1])
    gradients[1] = r.mul(cotangents[0], getA());
  return success();
}

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

LogicalResult SwigluOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                      Wanted, Gradients gradients) {
  auto gradient = SwigluGradOp::create(builder, getLoc(), getType(), getType(),
                                       getA(), getB(), cotangents[0]);
  gradients[0] = gradient.getDa();
  gradients[1] = gradient.getDb();
  return success();
}

//===----------------------------------------------------------------------===//
// Norms, losses, lookups, randomness
//===----------------------------------------------------------------------===//

LogicalResult LayerNormOp::buildGradient(OpBuilder &builder,
                                         ValueRange cotangents, Wanted wanted,
                                         Gradients gradients) {
  if (cotangents[1] || cotangents[2])
    return emitOpError("has no derivative through its statistics");
  Rule r(builder, *this);
  Value dy = cotangents[0];
  if (wanted[1]) {
    Value h =
        NormalizeOp::create(builder, getLoc(), fullPrecision(getX().getType()),
                            getX(), ValueRange{getMean(), getRstd()});
    gradients[1] = r.sumColumns(r.mul(r.widen(dy), h), getGamma().getType());
  }
  if (wanted[2])
    gradients[2] = r.sumColumns(dy, getBeta().getType());
  if (wanted[0])
    gradients[0] =
        LayerNormGradOp::create(builder, getLoc(), getX().getType(), getX(),
                                getGamma(), getMean(), getRstd(), dy);
  return success();
}

LogicalResult RmsNormOp::buildGradient(OpBuilder &builder,
                                       ValueRange cotangents, Wanted wanted,
                                       Gradients gradients) {
  if (cotangents[1])
    return emitOpError("has no derivative through its statistics");
  Rule r(builder, *this);
  Value dy = cotangents[0];
  if (wanted[1]) {
    Value h =
        NormalizeOp::create(builder, getLoc(), fullPrecision(getX().getType()),
                            getX(), ValueRange{getRstd()});
    gradients[1] = r.sumColumns(r.mul(r.widen(dy), h), getGamma().getType());
  }
  if (wanted[0])
    gradients[0] = RmsNormGradOp::create(builder, getLoc(), getX().getType(),
                                         getX(), getGamma(), getRstd(), dy);
  return success();
}

LogicalResult NormalizeOp::buildGradient(OpBuilder &builder,
                                         ValueRange cotangents, Wanted wanted,
                                         Gradients gradients) {
  Rule r(builder, *this);
  Value dy = r.widen(cotangents[0]), rstd = getStatistics().back();
  Value spread = r.perRow(rstd, dy.getType());
  if (wanted[0])
    gradients[0] = r.like(getX(), r.mul(dy, spread));
  bool hasMean = getStatistics().size() == 2;
  if (hasMean && wanted[1])
    gradients[1] = r.neg(r.sumRow(r.mul(dy, spread), rstd.getType()));
  if (wanted[hasMean ? 2 : 1]) {
    Value centered = r.widen(getX());
    if (hasMean)
      centered =
          r.sub(centered, r.perRow(getStatistics().front(), dy.getType()));
    gradients[hasMean ? 2 : 1] = r.sumRow(r.mul(dy, centered), rstd.getType());
  }
  return success();
}

LogicalResult AffineOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                      Wanted wanted, Gradients gradients) {
  Rule r(builder, *this);
  Value dy = r.widen(cotangents[0]);
  if (wanted[0])
    gradients[0] =
        r.like(getX(), r.mul(dy, r.perColumn(getGamma(), dy.getType())));
  if (wanted[1])
    gradients[1] =
        r.sumColumns(r.mul(dy, r.widen(getX())), getGamma().getType());
  if (getBeta() && wanted[2])
    gradients[2] = r.sumColumns(dy, getBeta().getType());
  return success();
}

LogicalResult SoftmaxOp::buildGradient(OpBuilder &builder,
                                       ValueRange cotangents, Wanted,
                                       Gradients gradients) {
  gradients[0] = SoftmaxGradOp::create(builder, getLoc(), getX().getType(),
                                       getY(), cotangents[0]);
  return success();
}

/// The loss and its gradients come from one op, which takes the place of the
/// forward op: a loss is linear in its cotangent.
LogicalResult CrossEntropyOp::buildGradient(OpBuilder &builder,
                                            ValueRange cotangents,
                                            Wanted wanted,
                                            Gradients gradients) {
  if (wanted[2])
    return emitOpError("has no derivative with respect to its scale");
  CrossEntropyGradOp both;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(*this);
    both = CrossEntropyGradOp::create(
        builder, getLoc(),
        TypeRange{getLoss().getType(), getLogits().getType()}, getLogits(),
        getTargets(), getScale());
  }
  getLoss().replaceAllUsesWith(both.getLoss());
  gradients[0] =
      Rule(builder, *this).timesCotangent(both.getDlogits(), cotangents[0]);
  return success();
}

LogicalResult LinearCrossEntropyOp::buildGradient(OpBuilder &builder,
                                                  ValueRange cotangents,
                                                  Wanted wanted,
                                                  Gradients gradients) {
  if (wanted[3])
    return emitOpError("has no derivative with respect to its scale");
  LinearCrossEntropyGradOp both;
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(*this);
    both = LinearCrossEntropyGradOp::create(
        builder, getLoc(),
        TypeRange{getLoss().getType(), getHidden().getType(),
                  getWeight().getType()},
        getHidden(), getWeight(), getTargets(), getScale(), getRowsAttr());
  }
  getLoss().replaceAllUsesWith(both.getLoss());
  Rule r(builder, *this);
  if (wanted[0])
    gradients[0] = r.timesCotangent(both.getDhidden(), cotangents[0]);
  if (wanted[1])
    gradients[1] = r.timesCotangent(both.getDweight(), cotangents[0]);
  return success();
}

LogicalResult EmbeddingOp::buildGradient(OpBuilder &builder,
                                         ValueRange cotangents, Wanted,
                                         Gradients gradients) {
  auto type = getTable().getType();
  Value sum = EmbeddingGradOp::create(
      builder, getLoc(), fullPrecision(type), getTokens(), cotangents[0],
      /*accumulate=*/Value(), getPaddingIndexAttr());
  gradients[1] = builder.createOrFold<CastOp>(getLoc(), type, sum);
  return success();
}

LogicalResult DropoutOp::buildGradient(OpBuilder &builder,
                                       ValueRange cotangents, Wanted,
                                       Gradients gradients) {
  gradients[0] =
      DropoutOp::create(builder, getLoc(), getType(), cotangents[0], getRng(),
                        getPAttr(), getKeyAttr(), getSequencesAttr());
  return success();
}

LogicalResult RopeOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                    Wanted wanted, Gradients gradients) {
  if (wanted[1] || wanted[2])
    return emitOpError("has no derivative with respect to its tables");
  gradients[0] =
      RopeOp::create(builder, getLoc(), getType(), cotangents[0], getCos(),
                     getSin(), getHeads(), getSequences(), !getInverse());
  return success();
}

//===----------------------------------------------------------------------===//
// Matrix products and attention
//===----------------------------------------------------------------------===//

LogicalResult MatmulOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                      Wanted wanted, Gradients gradients) {
  Rule r(builder, *this);
  Value a = getA(), b = getB();
  // A wide product has a wide cotangent; products take one type of operands.
  auto type = getType().clone(tensorTypeOf(a).getElementType());
  Value dy = builder.createOrFold<CastOp>(getLoc(), type, cotangents[0]);
  bool ta = getTransA(), tb = getTransB();
  if (wanted[0])
    gradients[0] = ta ? r.matmul(b, dy, tb, true) : r.matmul(dy, b, false, !tb);
  if (wanted[1])
    gradients[1] = tb ? r.matmul(dy, a, true, ta) : r.matmul(a, dy, !ta, false);
  if (getAccumulate() && wanted[2])
    gradients[2] = cotangents[0];
  return success();
}

LogicalResult AttentionOp::buildGradient(OpBuilder &builder,
                                         ValueRange cotangents, Wanted,
                                         Gradients gradients) {
  if (cotangents[1])
    return emitOpError("has no derivative through its log-sum-exp");
  auto gradient = AttentionGradOp::create(
      builder, getLoc(),
      TypeRange{getQ().getType(), getK().getType(), getV().getType()}, getQ(),
      getK(), getV(), getO(), getLse(), cotangents[0], getRng(),
      getSequencesAttr(), getHeadsAttr(), getKvHeadsAttr(), getScaleAttr(),
      getCausalAttr(), getPAttr(), getKeyAttr(), getKvTileAttr());
  gradients[0] = gradient.getDq();
  gradients[1] = gradient.getDk();
  gradients[2] = gradient.getDv();
  return success();
}

//===----------------------------------------------------------------------===//
// Shapes and reductions
//===----------------------------------------------------------------------===//

LogicalResult BroadcastOp::buildGradient(OpBuilder &builder,
                                         ValueRange cotangents, Wanted,
                                         Gradients gradients) {
  // Sum over the result dimensions that the operand lacks or has with size 1;
  // the latter come back by a reshape.
  auto from = gradientType(getX().getType()), to = gradientType(getType());
  SmallVector<int64_t> summed, kept;
  for (int64_t dim = 0; dim < to.getRank(); ++dim) {
    const auto *it = llvm::find(getDims(), dim);
    bool repeated = it == getDims().end() ||
                    (from.getDimSize(it - getDims().begin()) == 1 &&
                     to.getDimSize(dim) != 1);
    if (repeated)
      summed.push_back(dim);
    else
      kept.push_back(to.getDimSize(dim));
  }
  Rule r(builder, *this);
  Value sum = cotangents[0];
  if (!summed.empty())
    sum = r.reduce(Reduction::Sum, sum,
                   RankedTensorType::get(kept, to.getElementType()), summed);
  if (sum.getType() != from)
    sum = ReshapeOp::create(builder, getLoc(), from, sum);
  gradients[0] = sum;
  return success();
}

LogicalResult ReduceOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                      Wanted, Gradients gradients) {
  Rule r(builder, *this);
  auto from = getX().getType();
  SmallVector<int64_t> kept;
  int64_t count = 1;
  for (int64_t dim = 0; dim < from.getRank(); ++dim)
    if (llvm::is_contained(getDims(), dim))
      count *= from.getDimSize(dim);
    else
      kept.push_back(dim);
  auto narrow = getType().clone(from.getElementType());
  Value dy = builder.createOrFold<CastOp>(getLoc(), narrow, cotangents[0]);
  dy = r.broadcast(dy, from, kept);
  if (getKind() == Reduction::Sum) {
    gradients[0] = dy;
    return success();
  }
  if (getKind() == Reduction::Mean) {
    gradients[0] = r.scale(dy, 1.0 / count);
    return success();
  }
  // max: equal parts to all elements that reach the maximum. relu_grad(x, y)
  // gives y where x > 0, so 1 - step(max - x) marks them.
  Value ones = r.constantLike(getX(), 1);
  Value below = r.sub(r.broadcast(getY(), from, kept), getX());
  Value mark = r.sub(ones, ReluGradOp::create(builder, getLoc(), below, ones));
  Value marked = r.reduce(Reduction::Sum, mark, getType(), getDims());
  gradients[0] = r.div(r.mul(dy, mark), r.broadcast(marked, from, kept));
  return success();
}

LogicalResult ReshapeOp::buildGradient(OpBuilder &builder,
                                       ValueRange cotangents, Wanted,
                                       Gradients gradients) {
  gradients[0] = ReshapeOp::create(
      builder, getLoc(), gradientType(getX().getType()), cotangents[0]);
  return success();
}

LogicalResult TransposeOp::buildGradient(OpBuilder &builder,
                                         ValueRange cotangents, Wanted,
                                         Gradients gradients) {
  SmallVector<int64_t> inverse(getPermutation().size());
  for (auto [i, dim] : llvm::enumerate(getPermutation()))
    inverse[dim] = i;
  gradients[0] =
      TransposeOp::create(builder, getLoc(), gradientType(getX().getType()),
                          cotangents[0], inverse);
  return success();
}

LogicalResult SliceOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                     Wanted, Gradients gradients) {
  gradients[0] =
      PadOp::create(builder, getLoc(), gradientType(getX().getType()),
                    cotangents[0], getOffsets());
  return success();
}

LogicalResult PadOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                   Wanted, Gradients gradients) {
  gradients[0] =
      SliceOp::create(builder, getLoc(), gradientType(getX().getType()),
                      cotangents[0], getLow());
  return success();
}

LogicalResult ConcatOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                      Wanted wanted, Gradients gradients) {
  SmallVector<int64_t> offsets(getType().getRank(), 0);
  for (auto [i, input] : llvm::enumerate(getInputs())) {
    if (wanted[i])
      gradients[i] =
          SliceOp::create(builder, getLoc(), gradientType(tensorTypeOf(input)),
                          cotangents[0], offsets);
    offsets[getDim()] += tensorTypeOf(input).getDimSize(getDim());
  }
  return success();
}
