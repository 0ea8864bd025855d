//===- OpChecks.cpp - Checks shared by verifiers ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpChecks.h"

using namespace mlir;
using namespace kiln;

std::string checks::toString(ArrayRef<int64_t> shape) {
  std::string text = "[";
  for (auto [i, size] : llvm::enumerate(shape))
    text += (i ? ", " : "") + std::to_string(size);
  return text + "]";
}

LogicalResult checks::checkOnlyKilnOps(Operation *parent) {
  for (Region &region : parent->getRegions())
    for (Operation &op : region.front())
      if (op.getDialect() != parent->getDialect()) {
        InFlightDiagnostic diagnostic = parent->emitOpError("contains '")
                                        << op.getName()
                                        << "', expected only ops of the kiln "
                                           "dialect";
        diagnostic.attachNote(op.getLoc()) << "the op is here";
        return diagnostic;
      }
  return success();
}

/// Checks the shape of `value` and, if `element` is not null, its element type.
static LogicalResult checkTensor(Operation *op, StringRef name, Value value,
                                 ArrayRef<int64_t> shape, Type element) {
  auto type = tensorTypeOf(value);
  if (type.getShape() != shape)
    return op->emitOpError("'")
           << name << "' is " << checks::toString(type.getShape())
           << ", expected " << checks::toString(shape);
  if (element && type.getElementType() != element)
    return op->emitOpError("'")
           << name << "' has element type " << type.getElementType()
           << ", expected " << element;
  return success();
}

LogicalResult checks::checkShape(Operation *op, StringRef name, Value value,
                                 ArrayRef<int64_t> shape, Value like) {
  return checkTensor(op, name, value, shape,
                     like ? tensorTypeOf(like).getElementType() : Type());
}

LogicalResult checks::checkFull(Operation *op, StringRef name, Value value,
                                ArrayRef<int64_t> shape, Value like) {
  return checkTensor(op, name, value, shape,
                     fullPrecision(tensorTypeOf(like).getElementType()));
}

LogicalResult checks::checkWide(Operation *op, StringRef name, Value value,
                                ArrayRef<int64_t> shape, Value like) {
  Type full = fullPrecision(tensorTypeOf(like).getElementType());
  return tensorTypeOf(value).getElementType() == full
             ? checkTensor(op, name, value, shape, full)
             : checkShape(op, name, value, shape, like);
}

LogicalResult checks::checkRank(Operation *op, StringRef name, Value value,
                                int64_t rank) {
  if (tensorTypeOf(value).getRank() != rank)
    return op->emitOpError("'")
           << name << "' has rank " << tensorTypeOf(value).getRank()
           << ", expected " << rank;
  return success();
}

LogicalResult checks::checkMinRank(Operation *op, StringRef name, Value value,
                                   int64_t rank) {
  if (tensorTypeOf(value).getRank() < rank)
    return op->emitOpError("'")
           << name << "' has rank " << tensorTypeOf(value).getRank()
           << ", expected at least " << rank;
  return success();
}

LogicalResult checks::checkIncreasing(Operation *op, ArrayRef<int64_t> dims,
                                      int64_t rank) {
  for (auto [i, dim] : llvm::enumerate(dims)) {
    if (dim < 0 || dim >= rank)
      return op->emitOpError("dims contains ")
             << dim << ", expected dimensions of at least 0 and below " << rank;
    if (i > 0 && dims[i - 1] >= dim)
      return op->emitOpError("dims is ")
             << toString(dims) << ", expected increasing dimensions";
  }
  return success();
}

LogicalResult checks::checkSequences(Operation *op, int64_t rows,
                                     int64_t sequences) {
  if (sequences < 1 || rows % sequences)
    return op->emitOpError("has ") << rows << " rows, which do not divide into "
                                   << sequences << " sequences";
  return success();
}

LogicalResult checks::checkRng(Operation *op, Value rng) {
  ArrayRef<int64_t> shape = tensorTypeOf(rng).getShape();
  if (shape != ArrayRef<int64_t>{1, 3} && shape != ArrayRef<int64_t>{1, 4})
    return op->emitOpError("'rng' has shape ")
           << toString(shape)
           << ", expected [1, 3] for seed, step and first sequence, or [1, 4] "
              "with the index of this rank on the axis tp";
  return success();
}

LogicalResult checks::checkProbability(Operation *op, double p) {
  if (!(p >= 0 && p < 1))
    return op->emitOpError("p is ") << p << ", expected at least 0 and below 1";
  return success();
}

LogicalResult checks::checkKeyTile(Operation *op,
                                   std::optional<uint64_t> keys) {
  auto count = static_cast<int64_t>(keys.value_or(64));
  if (count < 64 || count % 64)
    return op->emitOpError("kv_tile is ")
           << count << ", expected a positive multiple of 64";
  return success();
}

LogicalResult checks::checkChunkRows(Operation *op,
                                     std::optional<uint64_t> rows) {
  auto count = static_cast<int64_t>(rows.value_or(1));
  if (count < 1)
    return op->emitOpError("rows is ")
           << count << ", expected a positive number";
  return success();
}

LogicalResult checks::checkPaddingIndex(Operation *op, IntegerAttr index,
                                        Value table, int64_t least) {
  int64_t rows = tensorTypeOf(table).getDimSize(0);
  if (index && (index.getInt() < least || index.getInt() >= rows))
    return op->emitOpError("padding_index is ")
           << index.getInt() << ", expected a row index of the table, below "
           << rows;
  return success();
}

LogicalResult checks::checkTargets(Operation *op, Value rows, Value targets) {
  if (failed(checkRank(op, "rows of the loss", rows, 2)))
    return failure();
  if (tensorTypeOf(targets).getNumElements() !=
      tensorTypeOf(rows).getDimSize(0))
    return op->emitOpError("has ")
           << tensorTypeOf(targets).getNumElements() << " targets for "
           << tensorTypeOf(rows).getDimSize(0)
           << " rows, expected one target per row";
  return success();
}

LogicalResult checks::checkLike(Operation *op, ArrayRef<Named> values,
                                Value like) {
  for (auto [name, value] : values)
    if (failed(
            checkShape(op, name, value, tensorTypeOf(like).getShape(), like)))
      return failure();
  return success();
}

LogicalResult checks::checkPerRow(Operation *op, ArrayRef<Named> values,
                                  Value like) {
  for (auto [name, value] : values)
    if (failed(checkFull(op, name, value,
                         tensorTypeOf(like).getShape().drop_back(), like)))
      return failure();
  return success();
}

LogicalResult checks::checkElementType(Operation *op, Named value, Type type) {
  Type found = tensorTypeOf(value.second).getElementType();
  if (found != type)
    return op->emitOpError("'") << value.first << "' has element type " << found
                                << ", expected " << type;
  return success();
}
