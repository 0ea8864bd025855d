//===- KilnDerivedOps.cpp - Verifiers of ops that passes make -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Gradients, updates and the pieces of expanded ops. Evaluation and kernels
// index by the shapes that are checked here.
//
//===----------------------------------------------------------------------===//

#include "OpChecks.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;

using Named = std::pair<StringRef, Value>;

/// All of `values` must have the type of `like`.
static LogicalResult checkLike(Operation *op, ArrayRef<Named> values,
                               Value like) {
  for (auto [name, value] : values)
    if (failed(
            checkShape(op, name, value, tensorTypeOf(like).getShape(), like)))
      return failure();
  return success();
}

/// `values` must have one element per row of `like`, in full precision.
static LogicalResult checkPerRow(Operation *op, ArrayRef<Named> values,
                                 Value like) {
  for (auto [name, value] : values)
    if (failed(checkFull(op, name, value,
                         tensorTypeOf(like).getShape().drop_back(), like)))
      return failure();
  return success();
}

static LogicalResult checkElementType(Operation *op, Named value, Type type) {
  Type found = tensorTypeOf(value.second).getElementType();
  if (found != type)
    return op->emitOpError("'") << value.first << "' has element type " << found
                                << ", expected " << type;
  return success();
}

//===----------------------------------------------------------------------===//
// Norms and softmax
//===----------------------------------------------------------------------===//

LogicalResult LayerNormGradOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)) ||
      failed(checkLike(*this, {{"dy", getDy()}, {"dx", getDx()}}, getX())) ||
      failed(checkPerRow(*this, {{"mean", getMean()}, {"rstd", getRstd()}},
                         getX())))
    return failure();
  return checkFull(*this, "gamma", getGamma(),
                   getX().getType().getShape().back(), getX());
}

LogicalResult RmsNormGradOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)) ||
      failed(checkLike(*this, {{"dy", getDy()}, {"dx", getDx()}}, getX())) ||
      failed(checkPerRow(*this, {{"rstd", getRstd()}}, getX())))
    return failure();
  return checkFull(*this, "gamma", getGamma(),
                   getX().getType().getShape().back(), getX());
}

LogicalResult SoftmaxOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)))
    return failure();
  return checkLike(*this, {{"y", getY()}}, getX());
}

LogicalResult SoftmaxGradOp::verify() {
  if (failed(checkMinRank(*this, "y", getY(), 1)))
    return failure();
  return checkLike(*this, {{"dy", getDy()}, {"dx", getDx()}}, getY());
}

//===----------------------------------------------------------------------===//
// Losses and lookups
//===----------------------------------------------------------------------===//

LogicalResult SoftmaxCrossEntropyOp::verify() {
  if (failed(checkTargets(*this, getLogits(), getTargets())) ||
      failed(checkPerRow(*this, {{"row_loss", getRowLoss()}}, getLogits())))
    return failure();
  if (!getDlogits())
    return success();
  return checkLike(*this, {{"dlogits", getDlogits()}}, getLogits());
}

LogicalResult CrossEntropyGradOp::verify() {
  if (failed(checkTargets(*this, getLogits(), getTargets())))
    return failure();
  return checkLike(*this, {{"dlogits", getDlogits()}}, getLogits());
}

LogicalResult LinearCrossEntropyGradOp::verify() {
  if (failed(checkTargets(*this, getHidden(), getTargets())) ||
      failed(checkChunkRows(*this, getRows())) ||
      failed(checkRank(*this, "weight", getWeight(), 2)) ||
      failed(checkShape(*this, "weight", getWeight(),
                        {getWeight().getType().getDimSize(0),
                         getHidden().getType().getDimSize(1)},
                        getHidden())) ||
      failed(checkLike(*this, {{"dhidden", getDhidden()}}, getHidden())))
    return failure();
  return checkWide(*this, "dweight", getDweight(),
                   getWeight().getType().getShape(), getWeight());
}

LogicalResult EmbeddingGradOp::verify() {
  if (failed(checkRank(*this, "dtable", getDtable(), 2)) ||
      failed(checkShape(*this, "dy", getDy(),
                        {getTokens().getType().getNumElements(),
                         getDtable().getType().getDimSize(1)},
                        Value())) ||
      failed(checkPaddingIndex(*this, getPaddingIndexAttr(),
                               getDtable())) || // C1
      failed(checkFull(*this, "dtable", getDtable(),
                       getDtable().getType().getShape(), getDy())))
    return failure();
  if (!getAccumulate())
    return success();
  return checkLike(*this, {{"accumulate", getAccumulate()}}, getDtable());
}

LogicalResult SumSquaresOp::verify() {
  int64_t rows = getRowCount(getX().getType());
  if (getY().getType().getNumElements() != rows)
    return emitOpError("'y' has ") << getY().getType().getNumElements()
                                   << " elements for " << rows << " rows";
  return checkElementType(*this, {"y", getY()}, Float64Type::get(getContext()));
}

LogicalResult ClipFactorOp::verify() {
  return checkElementType(*this, {"squares", getSquares()},
                          Float64Type::get(getContext()));
}

LogicalResult SelectRowOp::verify() {
  if (failed(checkRank(*this, "x", getX(), 2)))
    return failure();
  return checkShape(*this, "y", getY(), {1, getX().getType().getDimSize(1)},
                    getX());
}

//===----------------------------------------------------------------------===//
// Matrix products and reductions
//===----------------------------------------------------------------------===//

LogicalResult AttentionGradOp::verify() {
  if (failed(checkRank(*this, "q", getQ(), 2)) ||
      failed(checkRank(*this, "k", getK(), 2)))
    return failure();
  int64_t rows = getQ().getType().getDimSize(0);
  int64_t cols = getQ().getType().getDimSize(1);
  int64_t sequences = getSequences(), heads = getHeads();
  int64_t kvHeads = getKvHeads();
  if (failed(checkSequences(*this, rows, sequences)))
    return failure();
  if (heads < 1 || kvHeads < 1 || heads % kvHeads || cols % heads)
    return emitOpError("has ")
           << cols << " columns, " << heads << " heads and " << kvHeads
           << " kv_heads, which do not divide each other";
  if (failed(checkShape(*this, "k", getK(), {rows, cols / heads * kvHeads},
                        getQ())) ||
      failed(checkLike(*this,
                       {{"o", getO()}, {"dout", getDout()}, {"dq", getDq()}},
                       getQ())) ||
      failed(checkLike(*this, {{"v", getV()}, {"dk", getDk()}, {"dv", getDv()}},
                       getK())) ||
      failed(checkFull(*this, "lse", getLse(),
                       {sequences * heads, rows / sequences}, getQ())))
    return failure();
  double p = getP().convertToDouble();
  if (failed(checkProbability(*this, p)))
    return failure();
  if (p > 0 && !getRng())
    return emitOpError("has p = ") << p << " but no 'rng'";
  if (getRng() && failed(checkRng(*this, getRng())))
    return failure();
  return checkKeyTile(*this, getKvTile());
}

LogicalResult ReduceCombineOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)))
    return failure();
  auto from = getX().getType(), to = getY().getType();
  if (to.getNumElements() * from.getDimSize(0) != from.getNumElements())
    return emitOpError("'y' has ")
           << to.getNumElements() << " elements, expected those of one of the "
           << from.getDimSize(0) << " parts of 'x' "
           << toString(from.getShape());
  if (failed(checkWide(*this, "x", getX(), from.getShape(), getY())))
    return failure();
  if (!getAccumulate())
    return success();
  return checkLike(*this, {{"accumulate", getAccumulate()}}, getY());
}
