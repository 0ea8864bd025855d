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

LogicalResult DropoutOp::verify() {
  if (failed(checkProbability(*this, getP().convertToDouble())) ||
      failed(checkRng(*this, getRng())) ||
      failed(checkSequences(*this, getRowCount(tensorTypeOf(getX())),
                            getSequences())))
    return failure();
  return checkShape(*this, "y", getY(), getX().getType().getShape(), getX());
}

bool DropoutOp::isCheapToRebuild() { return true; }
Rounding DropoutOp::getRounding() { return Rounding::Results; }

LogicalResult DropoutOp::buildGradient(OpBuilder &builder,
                                       ValueRange cotangents, Wanted,
                                       Gradients gradients) {
  gradients[0] =
      DropoutOp::create(builder, getLoc(), getType(), cotangents[0], getRng(),
                        getPAttr(), getKeyAttr(), getSequencesAttr());
  return success();
}

/// The mask differs between sequences, so even a shared value becomes
/// PerSequence.
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
  NodeId bits = rows.random(getRng(), getKey(), rows.getRows() / sequences);
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
      getRowCount(x.type) / static_cast<int64_t>(getSequences());
  for (int64_t i = 0, e = x.size(); i < e; ++i) {
    int64_t row = i / columns, column = i % columns;
    results[0].reals[i] =
        x.reals[i] *
        mask.factor(row / rowsPerSequence, row % rowsPerSequence, column);
  }
  return success();
}
