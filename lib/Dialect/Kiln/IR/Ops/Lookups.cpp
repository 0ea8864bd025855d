//===- Lookups.cpp - Embedding lookups and row selection --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference checks that indices are in bounds, because verifiers cannot
// check the values of tensors.
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
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

static LogicalResult checkTokens(Operation *op, const HostTensor &tokens,
                                 int64_t rows) {
  for (auto [i, token] : llvm::enumerate(tokens.integers))
    if (token < 0 || token >= rows)
      return op->emitOpError("token ")
             << i << " is " << token
             << ", expected a row index of the table, below " << rows;
  return success();
}

//===----------------------------------------------------------------------===//
// embedding
//===----------------------------------------------------------------------===//

LogicalResult EmbeddingOp::verify() {
  if (failed(checkRank(*this, "table", getTable(), 2)))
    return failure();
  SmallVector<int64_t> shape = {getTokens().getType().getNumElements(),
                                getTable().getType().getDimSize(1)};
  if (failed(
          checkShape(*this, "y", getY(), shape, Value())) || // Constraint C1.
      failed(checkPaddingIndex(*this, getPaddingIndexAttr(),
                               getTable()))) // Constraint C2.
    return failure();
  return checkWide(*this, "table", getTable(), getTable().getType().getShape(),
                   getY());
}

Precision EmbeddingOp::getPrecision() { return Precision::Low; }

bool EmbeddingOp::gathersRows() { return true; }
Rounding EmbeddingOp::getRounding() {
  return roundingOfConversion(getTable(), getY());
}

// The table keeps full precision; only the rows that the lookup reads are
// rounded.
bool EmbeddingOp::keepsFullOperand(unsigned operand) { return operand == 1; }

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

void EmbeddingOp::inferSequences(Facts operands, int64_t,
                                 MutableFacts results) {
  const SequenceFact &tokens = operands[0], &table = operands[1];
  if (findOpaque(operands) || !table.isShared())
    results[0] = explain(*this, operands);
  else if (tokens.isShared())
    results[0] = SequenceFact::shared(
        table.degree, sequenceMajorDim(getTokens(), tokens) ? 1 : 0);
  else if (sequenceMajorDim(getTokens(), tokens))
    results[0] = SequenceFact::perSequence(0, table.degree);
  else
    results[0] = explain(*this, operands);
}

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

LogicalResult EmbeddingOp::evaluate(Operands operands, Results results) {
  const HostTensor &tokens = *operands[0], &table = *operands[1];
  int64_t columns = table.shape()[1];
  if (failed(checkTokens(*this, tokens, table.shape()[0])))
    return failure();
  for (int64_t i = 0, e = tokens.size(); i < e; ++i)
    for (int64_t c = 0; c < columns; ++c)
      results[0].reals[i * columns + c] =
          table.reals[tokens.integers[i] * columns + c];
  return success();
}

LogicalResult EmbeddingGradOp::verify() {
  if (failed(checkRank(*this, "dtable", getDtable(), 2)) ||
      failed(checkShape(*this, "dy", getDy(),
                        {getTokens().getType().getNumElements(),
                         getDtable().getType().getDimSize(1)},
                        Value())) ||
      failed(checkPaddingIndex(*this, getPaddingIndexAttr(),
                               getDtable())) || // Constraint C1.
      failed(checkFull(*this, "dtable", getDtable(),
                       getDtable().getType().getShape(), getDy())))
    return failure();
  if (!getAccumulate())
    return success();
  return checkLike(*this, {{"accumulate", getAccumulate()}}, getDtable());
}

StringRef EmbeddingGradOp::getKernelFamily() { return "scatter"; }
bool EmbeddingGradOp::accumulatesInPlace() { return true; }
bool EmbeddingGradOp::readsPitched(unsigned operand) { return operand == 1; }

int64_t EmbeddingGradOp::getTiedOperand(unsigned) {
  return getAccumulate() ? static_cast<int64_t>(getNumOperands()) - 1 : -1;
}

int64_t EmbeddingGradOp::getLongestSum() {
  return getTokens().getType().getNumElements();
}

LogicalResult EmbeddingGradOp::evaluate(Operands operands, Results results) {
  const HostTensor &tokens = *operands[0], &dy = *operands[1];
  HostTensor &dtable = results[0];
  int64_t columns = dtable.shape()[1];
  if (failed(checkTokens(*this, tokens, dtable.shape()[0])))
    return failure();
  if (operands.size() == 3)
    dtable.reals = operands[2]->reals;
  IntegerAttr padding = getPaddingIndexAttr();
  for (int64_t i = 0, e = tokens.size(); i < e; ++i) {
    if (padding && tokens.integers[i] == padding.getInt())
      continue;
    for (int64_t c = 0; c < columns; ++c)
      dtable.reals[tokens.integers[i] * columns + c] +=
          dy.reals[i * columns + c];
  }
  return success();
}

//===----------------------------------------------------------------------===//
// select_row
//===----------------------------------------------------------------------===//

LogicalResult SelectRowOp::verify() {
  if (failed(checkRank(*this, "x", getX(), 2)))
    return failure();
  return checkShape(*this, "y", getY(), {1, getX().getType().getDimSize(1)},
                    getX());
}

Rounding SelectRowOp::getRounding() { return Rounding::Nothing; }

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

LogicalResult SelectRowOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  int64_t position = operands[1]->integers[0];
  int64_t rows = x.shape()[0], columns = x.shape()[1];
  if (position < 0 || position >= rows)
    return emitOpError("position is ")
           << position << ", expected a row index below " << rows;
  for (int64_t c = 0; c < columns; ++c)
    results[0].reals[c] = x.reals[position * columns + c];
  return success();
}
