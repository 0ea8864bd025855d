//===- Lookups.cpp - Embedding lookups and row selection --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The reference implementations of the ops check that indices are in bounds,
// because verifiers cannot check the values of tensors.
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
      (!getRank() && failed(checkPaddingIndex(*this, getPaddingIndexAttr(),
                                              getTable())))) // Constraint C2.
    return failure();
  int64_t padding = int64_t(getPaddingIndex().value_or(0));
  if (padding < 0 || padding > INT32_MAX)
    return emitOpError("padding_index is ")
           << padding << ", expected a number from 0 to 2147483647";
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
  Value tokens = getTokens();
  IntegerAttr padding = getPaddingIndexAttr();
  if (getRank()) {
    tokens = ShardRowsOp::create(
        builder, getLoc(), tokens.getType(), tokens, getRank(),
        builder.getI64IntegerAttr(type.getDimSize(0)), padding);
    padding = builder.getI64IntegerAttr(kNoRow);
  }
  Value sum = EmbeddingGradOp::create(builder, getLoc(), fullPrecision(type),
                                      tokens, cotangents[0],
                                      /*accumulate=*/Value(), padding);
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
  if (!getRank()) {
    NodeId y = rows.gathered(getTable(), token);
    if (y < 0)
      return failure();
    rows.set(getY(), y);
    return success();
  }
  NodeId rank = rows.scalar(getRank());
  if (rank < 0)
    return failure();
  // If another rank has the row of a token, row 0 of the table is read and
  // replaced by zeros.
  ShardRow row =
      shardRow(rows, token, rank, getTable().getType().getDimSize(0));
  NodeId y =
      rows.gathered(getTable(), rows.select(row.isMine, row.index,
                                            rows.constantLike(0, row.index)));
  if (y < 0)
    return failure();
  rows.set(getY(), rows.select(row.isMine, y, rows.constantLike(0, y)));
  return success();
}

LogicalResult EmbeddingOp::evaluate(Operands operands, Results results) {
  const HostTensor &tokens = *operands[0], &table = *operands[1];
  int64_t rows = table.shape()[0], columns = table.shape()[1];
  if (!getRank() && failed(checkTokens(*this, tokens, rows)))
    return failure();
  int64_t first = getRank() ? operands[2]->integers[0] * rows : 0;
  for (int64_t i = 0, e = tokens.size(); i < e; ++i) {
    int64_t row = tokens.integers[i] - first;
    bool isMine = row >= 0 && row < rows;
    for (int64_t c = 0; c < columns; ++c)
      results[0].reals[i * columns + c] =
          isMine ? table.reals[row * columns + c] : 0;
  }
  return success();
}

LogicalResult EmbeddingGradOp::verify() {
  if (failed(checkRank(*this, "dtable", getDtable(), 2)) ||
      failed(checkShape(*this, "dy", getDy(),
                        {getTokens().getType().getNumElements(),
                         getDtable().getType().getDimSize(1)},
                        Value())) ||
      failed(checkPaddingIndex(*this, getPaddingIndexAttr(), getDtable(),
                               kNoRow)) || // Constraint C1.
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
  IntegerAttr padding = getPaddingIndexAttr();
  bool mayBeForeign = padding && padding.getInt() == kNoRow;
  if (!mayBeForeign && failed(checkTokens(*this, tokens, dtable.shape()[0])))
    return failure();
  if (operands.size() == 3)
    dtable.reals = operands[2]->reals;
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
// shard_rows
//===----------------------------------------------------------------------===//

LogicalResult ShardRowsOp::verify() {
  if (getY().getType() != getTokens().getType())
    return emitOpError("has a result of type ")
           << getY().getType() << ", expected " << getTokens().getType();
  if (getRows() < 1 || getRows() > INT32_MAX)
    return emitOpError("rows is ")
           << getRows() << ", expected a number from 1 to " << INT32_MAX;
  return success();
}

Rounding ShardRowsOp::getRounding() { return Rounding::Nothing; }

RowSpace ShardRowsOp::getRowSpace() {
  return {getTokens().getType().getNumElements(), 1, /*flexible=*/false};
}

LogicalResult ShardRowsOp::buildRows(RowBuilder &rows) {
  NodeId token = rows.perRow(getTokens()), rank = rows.scalar(getRank());
  if (!hasSpace(rows, getRowSpace()) || !areValid({token, rank}))
    return failure();
  ShardRow row = shardRow(rows, token, rank, getRows());
  NodeId none = rows.constantLike(kNoRow, token);
  NodeId y = rows.select(row.isMine, row.index, none);
  if (std::optional<int64_t> padding = getPaddingIndex())
    y = rows.select(rows.equal(token, rows.constantLike(*padding, token)), none,
                    y);
  rows.set(getY(), y);
  return success();
}

LogicalResult ShardRowsOp::evaluate(Operands operands, Results results) {
  int64_t rows = getRows(), first = operands[1]->integers[0] * rows;
  for (auto [i, token] : llvm::enumerate(operands[0]->integers)) {
    int64_t row = token - first;
    bool isMine = row >= 0 && row < rows && token != getPaddingIndex();
    results[0].integers[i] = isMine ? row : kNoRow;
  }
  return success();
}

//===----------------------------------------------------------------------===//
// shard_positions
//===----------------------------------------------------------------------===//

LogicalResult ShardPositionsOp::verify() {
  if (getPeriod() < 1 || getPeriod() > INT32_MAX)
    return emitOpError("period is ")
           << int64_t(getPeriod()) << ", expected a number from 1 to "
           << INT32_MAX;
  if (getY().getType().getNumElements() > INT32_MAX)
    return emitOpError("has a result of type ")
           << getY().getType() << ", expected fewer than 2^31 elements";
  return success();
}

Rounding ShardPositionsOp::getRounding() { return Rounding::Nothing; }

RowSpace ShardPositionsOp::getRowSpace() {
  return {getY().getType().getNumElements(), 1, /*flexible=*/false};
}

/// Row programs have no integer division, so computes row / period as the
/// integer part of (row + 1/2) / period in f64. The exact quotient differs from
/// every integer by at least 1 / (2 period), and the op requires that rows are
/// below 2^31, so rounding does not change the integer part.
LogicalResult ShardPositionsOp::buildRows(RowBuilder &rows) {
  NodeId rank = rows.scalar(getRank());
  if (!hasSpace(rows, getRowSpace()) || rank < 0)
    return failure();
  NodeId size = rows.constantLike(double(rows.getRows()), rank);
  NodeId row = rows.add(rows.rowIndex(), rows.mul(rank, size));
  NodeId wide = rows.cast(row, row::Type::F64);
  NodeId quotient =
      rows.cast(rows.div(rows.add(wide, rows.constantLike(0.5, wide)),
                         rows.constantLike(double(getPeriod()), wide)),
                row::Type::I32);
  NodeId period = rows.constantLike(double(getPeriod()), row);
  rows.set(getY(), rows.sub(row, rows.mul(quotient, period)));
  return success();
}

LogicalResult ShardPositionsOp::evaluate(Operands operands, Results results) {
  std::vector<int64_t> &y = results[0].integers;
  int64_t first = operands[0]->integers[0] * int64_t(y.size());
  for (auto [i, position] : llvm::enumerate(y))
    position = (first + int64_t(i)) % int64_t(getPeriod());
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
