//===- KilnRowsShape.cpp - Row programs of reductions and lookups ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// RowOpInterface of what repeats, reduces, selects or drops elements. Ops whose
// dimensions do not fit rows and columns fail here and become permute kernels.
//
//===----------------------------------------------------------------------===//

#include "RowSpaces.h"

using namespace mlir;
using namespace kiln;

using NodeId = row::NodeId;
using Kind = row::Kind;

//===----------------------------------------------------------------------===//
// Broadcasts
//===----------------------------------------------------------------------===//

namespace {

/// How a broadcast repeats: sizes of the result's dimensions above one, in
/// order.
struct Repetition {
  int64_t before = 1; ///< repeated dimensions in front
  int64_t kept = 1;   ///< the operand's elements
  int64_t after = 1;  ///< repeated dimensions behind
  bool isRegular = true;
};

} // namespace

static Repetition repetitionOf(BroadcastOp op) {
  ArrayRef<int64_t> from = tensorTypeOf(op.getX()).getShape();
  ArrayRef<int64_t> to = tensorTypeOf(op.getY()).getShape();
  SmallVector<bool> isKept(to.size(), false);
  for (auto [size, dim] : llvm::zip_equal(from, op.getDims()))
    isKept[dim] = size == to[dim];
  Repetition repetition;
  for (auto [kept, size] : llvm::zip_equal(isKept, to)) {
    if (size == 1)
      continue;
    if (!kept) {
      (repetition.kept == 1 ? repetition.before : repetition.after) *= size;
      continue;
    }
    repetition.isRegular &= repetition.after == 1;
    repetition.kept *= size;
  }
  return repetition;
}

RowSpace BroadcastOp::getRowSpace() {
  Repetition repetition = repetitionOf(*this);
  // One value per row, whatever the number of repeated dimensions.
  if (repetition.isRegular && repetition.before == 1 && repetition.after > 1)
    return {repetition.kept, repetition.after, false};
  RowSpace space = rowsOfLast(getY());
  space.flexible =
      repetition.kept == 1 || (repetition.before == 1 && repetition.after == 1);
  return space;
}

LogicalResult BroadcastOp::buildRows(RowBuilder &rows) {
  Repetition repetition = repetitionOf(*this);
  int64_t elements = tensorTypeOf(getY()).getNumElements();
  if (!repetition.isRegular || elements != rows.getRows() * rows.getCols())
    return failure();
  NodeId x = -1;
  if (repetition.before == 1 && repetition.after == 1)
    x = rows.full(getX());
  else if (repetition.kept == 1)
    x = rows.scalar(getX());
  else if (repetition.before == 1 && repetition.kept == rows.getRows())
    x = rows.perRow(getX());
  else if (repetition.after == 1 && repetition.kept == rows.getCols())
    x = rows.perColumn(getX());
  else if (repetition.after == 1 && repetition.kept % rows.getCols() == 0)
    x = rows.modulo(getX(), repetition.kept / rows.getCols());
  if (x < 0)
    return failure();
  rows.set(getY(), x);
  return success();
}

RowSpace ReshapeOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult ReshapeOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX());
  if (x < 0)
    return failure();
  rows.set(getY(), x);
  return success();
}

//===----------------------------------------------------------------------===//
// Reductions
//===----------------------------------------------------------------------===//

/// Whether the reduced dimensions above one are behind all kept ones.
static bool reducesTrailing(ReduceOp op) {
  bool reduced = false;
  for (auto [dim, size] : llvm::enumerate(tensorTypeOf(op.getX()).getShape())) {
    if (size == 1)
      continue;
    if (llvm::is_contained(op.getDims(), static_cast<int64_t>(dim)))
      reduced = true;
    else if (reduced)
      return false;
  }
  return true;
}

RowSpace ReduceOp::getRowSpace() {
  if (!reducesTrailing(*this))
    return rowsOfLast(getX());
  int64_t kept = tensorTypeOf(getY()).getNumElements();
  return {kept,
          tensorTypeOf(getX()).getNumElements() / std::max<int64_t>(kept, 1),
          false};
}

LogicalResult ReduceOp::buildRows(RowBuilder &rows) {
  RowSpace space = getRowSpace();
  NodeId x = rows.full(getX());
  // kiln-set-numerics made a mean a sum and a factor.
  if (getKind() == Reduction::Mean || !reducesTrailing(*this) ||
      !hasSpace(rows, space) || x < 0)
    return failure();
  row::Type type = rows.typeOf(x);
  if (getKind() == Reduction::Max) {
    // A maximum skips NaN. The sum of zeros and what is NaN tells whether there
    // was one.
    NodeId nan = rows.reduceSum(
        rows.select(rows.equal(x, x), rows.constantLike(0, x), x));
    rows.set(getY(), rows.select(rows.equal(nan, nan), rows.reduceMax(x), nan));
    return success();
  }
  // A whole tensor is added up in f64.
  if (space.rows == 1)
    x = rows.cast(x, row::Type::F64);
  NodeId sum = rows.reduceSum(x);
  rows.set(getY(), rows.cast(sum, type));
  return success();
}

RowSpace ReducePartialOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult ReducePartialOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX());
  if (!hasSpace(rows, getRowSpace()) || x < 0)
    return failure();
  rows.setColumnPartial(getY(), x, getChunk());
  return success();
}

RowSpace ReduceCombineOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult ReduceCombineOp::buildRows(RowBuilder &rows) {
  int64_t elements = rows.getRows() * rows.getCols();
  int64_t all = tensorTypeOf(getX()).getNumElements();
  if (elements == 0 || all % elements != 0)
    return failure();
  NodeId sum = rows.sumOfSlices(getX(), all / elements);
  if (sum < 0)
    return failure();
  if (getAccumulate()) {
    NodeId before = rows.full(getAccumulate());
    if (before < 0)
      return failure();
    sum = rows.add(before, sum);
  }
  rows.set(getY(), sum);
  return success();
}

/// One row: everything.
static RowSpace oneRow(Value x) {
  return {1, tensorTypeOf(x).getNumElements(), false};
}

RowSpace ScaledTotalOp::getRowSpace() { return oneRow(getX()); }
LogicalResult ScaledTotalOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX()), scale = rows.scalar(getScale());
  if (!hasSpace(rows, getRowSpace()) || !areValid({x, scale}))
    return failure();
  NodeId sum = rows.reduceSum(rows.cast(x, row::Type::F64));
  rows.set(getTotal(), rows.mul(scale, sum));
  return success();
}

RowSpace SumSquaresOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult SumSquaresOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX());
  if (!hasSpace(rows, getRowSpace()) || x < 0)
    return failure();
  x = rows.cast(x, row::Type::F64);
  rows.set(getY(), rows.reduceSum(rows.mul(x, x)));
  return success();
}

RowSpace ClipFactorOp::getRowSpace() { return oneRow(getSquares()); }
LogicalResult ClipFactorOp::buildRows(RowBuilder &rows) {
  NodeId squares = rows.full(getSquares()), clip = rows.scalar(getClip());
  if (!hasSpace(rows, getRowSpace()) || !areValid({squares, clip}))
    return failure();
  NodeId one = rows.constant(1, row::Type::F64);
  NodeId norm = rows.unary(Kind::Sqrt, rows.reduceSum(squares));
  NodeId factor =
      rows.div(clip, rows.add(norm, rows.constant(1e-6, row::Type::F64)));
  factor = rows.select(rows.less(factor, one), factor, one);
  NodeId clips = rows.less(rows.constant(0, row::Type::F64), clip);
  rows.set(getFactor(), rows.select(clips, factor, one));
  rows.set(getNorm(), norm);
  return success();
}

//===----------------------------------------------------------------------===//
// Lookups and dropout
//===----------------------------------------------------------------------===//

RowSpace EmbeddingOp::getRowSpace() { return rowsOfLast(getY()); }
LogicalResult EmbeddingOp::buildRows(RowBuilder &rows) {
  NodeId token = rows.perRow(getTokens());
  if (!hasSpace(rows, getRowSpace()) || token < 0)
    return failure();
  NodeId y = rows.gathered(getTable(), token);
  if (y < 0)
    return failure();
  rows.set(getY(), y);
  return success();
}

RowSpace SelectRowOp::getRowSpace() { return rowsOfLast(getY()); }
LogicalResult SelectRowOp::buildRows(RowBuilder &rows) {
  NodeId position = rows.scalar(getPosition());
  if (!hasSpace(rows, getRowSpace()) || position < 0)
    return failure();
  NodeId y = rows.gathered(getX(), position);
  if (y < 0)
    return failure();
  rows.set(getY(), y);
  return success();
}

RowSpace DropoutOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult DropoutOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX());
  int64_t sequences = getSequences();
  if (!hasSpace(rows, getRowSpace()) || x < 0)
    return failure();
  double p = getP().convertToDouble();
  NodeId bits = rows.random(getRng(), getKey(), rows.getRows() / sequences);
  // Bits below p * 2^32 drop the element.
  NodeId threshold = rows.constantLike(static_cast<uint32_t>(p * 0x1p32), bits);
  NodeId factor =
      rows.select(rows.lessUnsigned(bits, threshold), rows.constantLike(0, x),
                  rows.constantLike(1 / (1 - p), x));
  rows.set(getY(), rows.mul(x, factor));
  return success();
}
