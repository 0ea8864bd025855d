//===- Dropout.cpp - Dropout ------------------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
#include "KilnReferenceRandom.h"
#include "OpChecks.h"
#include "ReferenceRules.h"
#include "RowSpaces.h"
#include "SequenceRules.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::gradients;
using namespace kiln::reference;
using namespace kiln::sequences;

using NodeId = row::NodeId;

void DropoutOp::build(OpBuilder &builder, OperationState &state, Type type,
                      Value x, Value rng, APFloat p, int64_t key,
                      int64_t sequences) {
  build(builder, state, type, x, rng, /*rank=*/Value(),
        builder.getF64FloatAttr(p.convertToDouble()),
        builder.getI64IntegerAttr(key), builder.getI64IntegerAttr(sequences),
        /*length=*/IntegerAttr());
}

/// Returns the number of rows of `x` on all ranks together.
static int64_t countRows(DropoutOp op) {
  std::optional<int64_t> length = op.getLength();
  return length ? *length * int64_t(op.getSequences())
                : getRowCount(tensorTypeOf(op.getX()));
}

LogicalResult DropoutOp::verify() {
  if (bool(getRank()) != getLength().has_value()) // Constraint C1.
    return emitOpError("has only one of the operand 'rank' and the attribute "
                       "'length', expected both or none");
  if (getLength() && int64_t(*getLength()) < 1)
    return emitOpError("length is ")
           << int64_t(*getLength()) << ", expected a positive number";
  if (failed(checkProbability(*this, getP().convertToDouble())) ||
      failed(checkRng(*this, getRng())) ||
      failed(checkSequences(*this, countRows(*this), getSequences())))
    return failure();
  return checkShape(*this, "y", getY(), getX().getType().getShape(), getX());
}

bool DropoutOp::isCheapToRebuild() { return true; }
Rounding DropoutOp::getRounding() { return Rounding::Results; }

LogicalResult DropoutOp::buildGradient(OpBuilder &builder,
                                       ValueRange cotangents, Wanted,
                                       Gradients gradients) {
  gradients[0] = DropoutOp::create(
      builder, getLoc(), getType(), cotangents[0], getRng(), getRank(),
      getPAttr(), getKeyAttr(), getSequencesAttr(), getLengthAttr());
  return success();
}

void DropoutOp::setShardOfRows(Value rank, int64_t rows) {
  setLength(rows / int64_t(getSequences()));
  getRankMutable().assign(rank);
}

/// The mask differs between sequences. Therefore the result is PerSequence (has
/// one slice per sequence) even if x does not depend on the sequences.
void DropoutOp::inferSequences(Facts operands, int64_t batch,
                               MutableFacts results) {
  const SequenceFact &x = operands[0];
  int64_t sequences = getSequences();
  std::optional<int64_t> dim = sequenceMajorDim(getX(), x);
  results[0] = sequences == batch && dim && isa<BlockArgument>(getRng())
                   ? SequenceFact::perSequence(*dim, x.degree)
                   : explain(*this, x);
}

RowSpace DropoutOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult DropoutOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX());
  int64_t sequences = getSequences();
  if (!hasSpace(rows, getRowSpace()) || x < 0)
    return failure();
  double p = getP().convertToDouble();
  NodeId first = -1;
  if (getRank()) {
    NodeId rank = rows.scalar(getRank());
    if (rank < 0)
      return failure();
    first = rows.mul(rank, rows.constantLike(double(getRowSpace().rows), rank));
  }
  NodeId bits =
      rows.random(getRng(), getKey(), countRows(*this) / sequences, first);
  // An element is dropped if its random bits are below p * 2^32.
  NodeId threshold = rows.constantLike(static_cast<uint32_t>(p * 0x1p32), bits);
  NodeId factor =
      rows.select(rows.lessUnsigned(bits, threshold), rows.constantLike(0, x),
                  rows.constantLike(1 / (1 - p), x));
  rows.set(getY(), rows.mul(x, factor));
  return success();
}

LogicalResult DropoutOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  reference::DropoutMask mask(*operands[1], getKey(), getP().convertToDouble());
  int64_t columns = getColumnCount(x.type);
  int64_t rowsPerSequence =
      countRows(*this) / static_cast<int64_t>(getSequences());
  int64_t first =
      getRank() ? operands[2]->integers[0] * getRowCount(x.type) : 0;
  for (int64_t i = 0, e = x.size(); i < e; ++i) {
    int64_t row = first + i / columns, column = i % columns;
    results[0].reals[i] =
        x.reals[i] *
        mask.factor(row / rowsPerSequence, row % rowsPerSequence, column);
  }
  return success();
}
