//===- Reductions.cpp - Sums, means and maxima over dimensions --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A reduction that cannot be expressed over rows and columns has no row program
// and is compiled to a permute kernel.
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
#include "OpChecks.h"
#include "ReferenceRules.h"
#include "RowSpaces.h"
#include "SequenceRules.h"

#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::gradients;
using namespace kiln::reference;
using namespace kiln::sequences;

using NodeId = row::NodeId;

//===----------------------------------------------------------------------===//
// reduce
//===----------------------------------------------------------------------===//

/// Returns true if the reduced dimensions follow all kept ones, ignoring
/// dimensions of size 1.
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

LogicalResult ReduceOp::verify() {
  auto from = getX().getType().getShape();
  if (failed(checkIncreasing(*this, getDims(), from.size()))) // Constraint C1.
    return failure();
  SmallVector<int64_t> shape;
  for (auto [i, size] : llvm::enumerate(from))
    if (!llvm::is_contained(getDims(), i))
      shape.push_back(size);
  return getKind() == Reduction::Sum
             ? checkWide(*this, "y", getY(), shape, getX())
             : checkShape(*this, "y", getY(), shape, getX());
}

Precision ReduceOp::getPrecision() { return Precision::Full; }
bool ReduceOp::isLinear() { return getKind() != Reduction::Max; }

Rounding ReduceOp::getRounding() {
  return getKind() == Reduction::Max ? Rounding::Nothing : Rounding::Inside;
}

/// A sum or maximum over trailing dimensions has a row program and the family
/// Row. All other reductions have the family Kernel.
Family ReduceOp::getFamily() {
  RowSpace space = getRowSpace();
  RowBuilder probe(space.rows, space.cols);
  return succeeded(buildRows(probe)) ? Family::Row : Family::Kernel;
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
  // The gradient of max is distributed equally over all elements that are equal
  // to the maximum. relu_grad(max - x, 1) is 1 for elements below the maximum
  // and 0 for the others, so `mark` is 1 for the maximum.
  Value ones = r.constantLike(getX(), 1);
  Value below = r.sub(r.broadcast(getY(), from, kept), getX());
  Value mark = r.sub(ones, ReluGradOp::create(builder, getLoc(), below, ones));
  Value marked = r.reduce(Reduction::Sum, mark, getType(), getDims());
  gradients[0] = r.div(r.mul(dy, mark), r.broadcast(marked, from, kept));
  return success();
}

void ReduceOp::inferSequences(Facts operands, int64_t, MutableFacts results) {
  const SequenceFact &x = operands[0];
  ArrayRef<int64_t> dims = getDims();
  if (!isLinear() && !x.isOpaque()) {
    if (x.isTotal() || x.isMixed()) {
      results[0] = explain(*this, operands);
      return;
    }
    if (x.degree != 0) {
      results[0] = SequenceFact::opaque(*this, kNotHomogeneous);
      return;
    }
  }
  if (x.isPerSequence() && llvm::is_contained(dims, x.dim)) {
    switch (getKind()) {
    case Reduction::Sum:
      results[0] = SequenceFact::total(x.degree);
      return;
    case Reduction::Mean:
      results[0] = SequenceFact::opaque(
          *this, "averages over the sequences of a micro-batch");
      return;
    case Reduction::Max:
      results[0] = SequenceFact::opaque(
          *this, "compares the sequences of a micro-batch");
      return;
    }
  }
  results[0] = inferMoved(*this, x, [&](int64_t dim) -> std::optional<int64_t> {
    if (llvm::is_contained(dims, dim))
      return std::nullopt;
    return dim - llvm::count_if(dims, [&](int64_t d) { return d < dim; });
  });
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
  // Means have no row program, because kiln-set-numerics replaces them by a sum
  // and a scale.
  if (getKind() == Reduction::Mean || !reducesTrailing(*this) ||
      !hasSpace(rows, space) || x < 0)
    return failure();
  row::Type type = rows.typeOf(x);
  if (getKind() == Reduction::Max) {
    // reduceMax ignores NaN. Detect NaN with a sum that is NaN if any element
    // is NaN, and 0 otherwise.
    NodeId nan = rows.reduceSum(
        rows.select(rows.equal(x, x), rows.constantLike(0, x), x));
    rows.set(getY(), rows.select(rows.equal(nan, nan), rows.reduceMax(x), nan));
    return success();
  }
  // The sum of all elements of a tensor is computed in f64.
  if (space.rows == 1)
    x = rows.cast(x, row::Type::F64);
  NodeId sum = rows.reduceSum(x);
  rows.set(getY(), rows.cast(sum, type));
  return success();
}

int64_t ReduceOp::getLongestSum() { return termsPerResult(*this); }

LogicalResult ReduceOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  HostTensor &y = results[0];
  bool isMax = getKind() == Reduction::Max;
  if (isMax)
    y.reals.assign(y.size(), -HUGE_VAL);
  forEachIndex(x.shape(), [&](ArrayRef<int64_t> index, int64_t i) {
    SmallVector<int64_t> to;
    for (auto [dim, position] : llvm::enumerate(index))
      if (!llvm::is_contained(getDims(), static_cast<int64_t>(dim)))
        to.push_back(position);
    double &element = y.reals[positionOf(to, y.shape())];
    if (!isMax)
      element += x.reals[i];
    else if (std::isnan(x.reals[i]) || x.reals[i] > element)
      element = x.reals[i];
  });
  if (getKind() == Reduction::Mean)
    for (double &element : y.reals)
      element /= static_cast<double>(x.size() / y.size());
  return success();
}

//===----------------------------------------------------------------------===//
// reduce_partial and reduce_combine
//===----------------------------------------------------------------------===//

LogicalResult ReducePartialOp::verify() {
  int64_t chunk = getChunk();
  if (chunk < 1)
    return emitOpError("chunk is ") << chunk << ", expected a positive number";
  int64_t rows = getRowCount(getX().getType());
  return checkFull(
      *this, "y", getY(),
      {rows / chunk + (rows % chunk != 0), getColumnCount(getX().getType())},
      getX()); // Constraint C1.
}

RowSpace ReducePartialOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult ReducePartialOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX());
  if (!hasSpace(rows, getRowSpace()) || x < 0)
    return failure();
  rows.setColumnPartial(getY(), x, getChunk());
  return success();
}

int64_t ReducePartialOp::getLongestSum() { return termsPerResult(*this); }

LogicalResult ReducePartialOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  int64_t columns = getColumnCount(x.type);
  for (int64_t r = 0, e = getRowCount(x.type); r < e; ++r)
    for (int64_t c = 0; c < columns; ++c)
      results[0].reals[r / static_cast<int64_t>(getChunk()) * columns + c] +=
          x.reals[r * columns + c];
  return success();
}

LogicalResult ReduceCombineOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)))
    return failure();
  auto from = getX().getType(), to = getY().getType();
  if (to.getNumElements() * from.getDimSize(0) != from.getNumElements())
    return emitOpError("'y' has ")
           << to.getNumElements()
           << " elements, expected as many as in each of the "
           << from.getDimSize(0) << " slices x[i]; 'x' has shape "
           << toString(from.getShape());
  if (failed(checkWide(*this, "x", getX(), from.getShape(), getY())))
    return failure();
  if (!getAccumulate())
    return success();
  return checkLike(*this, {{"accumulate", getAccumulate()}}, getY());
}

int64_t ReduceCombineOp::getTiedOperand(unsigned) {
  return getAccumulate() ? static_cast<int64_t>(getNumOperands()) - 1 : -1;
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

int64_t ReduceCombineOp::getLongestSum() { return termsPerResult(*this); }

LogicalResult ReduceCombineOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  HostTensor &y = results[0];
  for (int64_t i = 0, e = x.size(); i < e; ++i)
    y.reals[i % y.size()] += x.reals[i];
  if (operands.size() == 2)
    for (int64_t c = 0, e = y.size(); c < e; ++c)
      y.reals[c] = operands[1]->reals[c] + y.reals[c];
  return success();
}
