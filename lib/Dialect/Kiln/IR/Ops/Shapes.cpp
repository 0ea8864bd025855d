//===- Shapes.cpp - Broadcasts and shape ops --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A broadcast that cannot be expressed over rows and columns has no row program
// and is compiled to a permute kernel. The reference visits every index of one
// tensor, the operand or the result, and computes the position of the
// corresponding element of the other tensor.
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
#include "OpChecks.h"
#include "ReferenceRules.h"
#include "RowSpaces.h"
#include "SequenceRules.h"
#include "kiln/Dialect/Kiln/IR/GradientType.h"

#include "llvm/ADT/SmallBitVector.h"

#include <numeric>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::gradients;
using namespace kiln::reference;
using namespace kiln::sequences;

using NodeId = row::NodeId;

//===----------------------------------------------------------------------===//
// broadcast
//===----------------------------------------------------------------------===//

namespace {

/// The repetition pattern of a broadcast. A result dimension is kept if an
/// operand dimension of the same size is mapped to it. All other result
/// dimensions are repeated. Each number is a product of the sizes of result
/// dimensions. Dimensions of size 1 are ignored.
struct Repetition {
  int64_t before = 1; ///< Repeated dimensions before the first kept one.
  int64_t kept = 1;   ///< Kept dimensions.
  int64_t after = 1;  ///< Repeated dimensions after the first kept one.
  /// True if no repeated dimension is between two kept ones.
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

LogicalResult BroadcastOp::verify() {
  auto from = getX().getType().getShape(), to = getY().getType().getShape();
  if (getDims().size() != from.size())
    return emitOpError("dims has ")
           << getDims().size() << " entries, expected the rank of 'x', "
           << from.size();
  if (failed(checkIncreasing(*this, getDims(), to.size()))) // Constraint C2.
    return failure();
  for (auto [i, dim] : llvm::enumerate(getDims()))
    if (from[i] != to[dim] && from[i] != 1) // Constraint C1.
      return emitOpError("dimension ")
             << i << " of 'x' has size " << from[i]
             << ", which cannot be broadcast to dimension " << dim
             << " of 'y', whose size is " << to[dim];
  if (getX().getType().getElementType() != getY().getType().getElementType())
    return emitOpError("'x' and 'y' must have equal element types");
  return success();
}

bool BroadcastOp::isLinear() { return true; }
Rounding BroadcastOp::getRounding() { return Rounding::Nothing; }

/// Returns Row if the operand has
/// - one element,
/// - the leading dimensions of the result (one value per row), or
/// - the trailing dimensions of the result (one value per column, or a group of
///   rows that repeats).
/// All other broadcasts are strided copies, and so are broadcasts of integers,
/// because row programs cannot write integers.
Family BroadcastOp::getFamily() {
  if (!isa<FloatType>(getX().getType().getElementType()))
    return Family::Kernel;
  RowSpace space = getRowSpace();
  RowBuilder probe(space.rows, space.cols);
  return succeeded(buildRows(probe)) ? Family::Row : Family::Kernel;
}

LogicalResult BroadcastOp::buildGradient(OpBuilder &builder,
                                         ValueRange cotangents, Wanted,
                                         Gradients gradients) {
  // Sum over the result dimensions that the operand does not have or has with
  // size 1. A reshape then restores the dimensions of size 1.
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

void BroadcastOp::inferSequences(Facts operands, int64_t batch,
                                 MutableFacts results) {
  ArrayRef<int64_t> from = tensorTypeOf(getX()).getShape();
  ArrayRef<int64_t> to = tensorTypeOf(getY()).getShape(), dims = getDims();
  auto rank = static_cast<int64_t>(from.size());
  results[0] = inferMoved(*this, operands[0],
                          [&](int64_t dim) -> std::optional<int64_t> {
                            if (dim >= rank || to[dims[dim]] % batch != 0)
                              return std::nullopt;
                            return dims[dim];
                          });
  // All elements along a repeated dimension are equal. If `batch`, the number
  // of sequences, divides the size of the dimension, the dimension therefore
  // consists of `batch` identical slices, one per sequence.
  uint64_t repeated = dividedDims(tensorTypeOf(getY()), batch);
  for (auto [size, dim] : llvm::zip_equal(from, dims))
    if (size == to[dim])
      repeated &= ~(uint64_t(1) << dim);
  if (results[0].isShared())
    results[0].repeating |= repeated;
}

RowSpace BroadcastOp::getRowSpace() {
  Repetition repetition = repetitionOf(*this);
  // If only trailing dimensions are repeated, combine all of them into the
  // columns. Each row of the result then repeats one value of the operand.
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

LogicalResult BroadcastOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  forEachIndex(results[0].shape(), [&](ArrayRef<int64_t> index, int64_t i) {
    SmallVector<int64_t> from;
    for (auto [size, dim] : llvm::zip_equal(x.shape(), getDims()))
      from.push_back(size == 1 ? 0 : index[dim]);
    copyElement(x, positionOf(from, x.shape()), results[0], i);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// reshape and transpose
//===----------------------------------------------------------------------===//

LogicalResult ReshapeOp::verify() {
  auto from = getX().getType(), to = getY().getType();
  if (from.getNumElements() != to.getNumElements()) // Constraint C1.
    return emitOpError("has an operand of ")
           << from.getNumElements() << " elements and a result of "
           << to.getNumElements() << ", expected equal numbers of elements";
  if (from.getElementType() != to.getElementType())
    return emitOpError("'x' and 'y' must have equal element types");
  return success();
}

Family ReshapeOp::getFamily() { return Family::View; }
bool ReshapeOp::isLinear() { return true; }
Rounding ReshapeOp::getRounding() { return Rounding::Nothing; }

LogicalResult ReshapeOp::buildGradient(OpBuilder &builder,
                                       ValueRange cotangents, Wanted,
                                       Gradients gradients) {
  gradients[0] = ReshapeOp::create(
      builder, getLoc(), gradientType(getX().getType()), cotangents[0]);
  return success();
}

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getX().getType() == getType())
    return getX();
  if (auto source = getX().getDefiningOp<ReshapeOp>()) {
    getXMutable().assign(source.getX());
    return getResult();
  }
  return {};
}

/// If dimension i of x consists of `batch` slices of equal size, one per
/// sequence, a dimension j of y consists of slices with the same elements if
/// - `batch` divides the size of dimension j, and
/// - the product of the sizes of dimensions 0 to j - 1 of y equals that of
///   dimensions 0 to i - 1 of x,
/// because a reshape keeps the row-major order of the elements.
void ReshapeOp::inferSequences(Facts operands, int64_t batch,
                               MutableFacts results) {
  ArrayRef<int64_t> from = tensorTypeOf(getX()).getShape();
  ArrayRef<int64_t> to = tensorTypeOf(getY()).getShape();
  auto before = [](ArrayRef<int64_t> shape, int64_t dim) {
    return std::accumulate(shape.begin(), shape.begin() + dim, int64_t(1),
                           std::multiplies<>());
  };
  results[0] = inferMoved(
      *this, operands[0], [&](int64_t dim) -> std::optional<int64_t> {
        if (dim >= static_cast<int64_t>(from.size()))
          return std::nullopt;
        for (int64_t other = 0, rank = to.size(); other < rank; ++other)
          if (before(to, other) == before(from, dim) && to[other] % batch == 0)
            return other;
        return std::nullopt;
      });
}

RowSpace ReshapeOp::getRowSpace() { return flexibleRows(getY()); }
LogicalResult ReshapeOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX());
  if (x < 0)
    return failure();
  rows.set(getY(), x);
  return success();
}

LogicalResult ReshapeOp::evaluate(Operands operands, Results results) {
  return evaluateCopy(operands, results);
}

LogicalResult TransposeOp::verify() {
  auto from = getX().getType().getShape();
  llvm::SmallBitVector seen(from.size());
  SmallVector<int64_t> shape;
  for (int64_t dim : getPermutation()) {
    if (dim < 0 || dim >= static_cast<int64_t>(from.size()) || seen.test(dim))
      return emitOpError("permutation ")
             << toString(getPermutation())
             << " does not name every dimension of 'x' once; 'x' has rank "
             << from.size();
    seen.set(dim);
    shape.push_back(from[dim]);
  }
  if (!seen.all()) // Constraint C1.
    return emitOpError("permutation ")
           << toString(getPermutation())
           << " does not name every dimension of 'x' once; 'x' has rank "
           << from.size();
  return checkShape(*this, "y", getY(), shape, getX());
}

bool TransposeOp::isLinear() { return true; }
Rounding TransposeOp::getRounding() { return Rounding::Nothing; }

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

void TransposeOp::inferSequences(Facts operands, int64_t,
                                 MutableFacts results) {
  ArrayRef<int64_t> permutation = getPermutation();
  results[0] = inferMoved(*this, operands[0],
                          [&](int64_t dim) -> std::optional<int64_t> {
                            auto found = llvm::find(permutation, dim);
                            if (found == permutation.end())
                              return std::nullopt;
                            return found - permutation.begin();
                          });
}

LogicalResult TransposeOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  forEachIndex(results[0].shape(), [&](ArrayRef<int64_t> index, int64_t i) {
    SmallVector<int64_t> from(index.size());
    for (auto [position, dim] : llvm::zip_equal(index, getPermutation()))
      from[dim] = position;
    copyElement(x, positionOf(from, x.shape()), results[0], i);
  });
  return success();
}

//===----------------------------------------------------------------------===//
// slice, pad and concat
//===----------------------------------------------------------------------===//

/// Returns the SequenceFact of a slice or pad. If dimension d of the operand
/// has one part per sequence, so has dimension d of the result, unless the op
/// changes the size of dimension d.
static SequenceFact inferResized(Operation *op, const SequenceFact &x,
                                 int64_t batch) {
  ArrayRef<int64_t> from = tensorTypeOf(op->getOperand(0)).getShape();
  ArrayRef<int64_t> to = tensorTypeOf(op->getResult(0)).getShape();
  return inferMoved(op, x, [&](int64_t dim) -> std::optional<int64_t> {
    bool exists = dim < static_cast<int64_t>(from.size());
    if (exists && (batch == 1 || from[dim] == to[dim]))
      return dim;
    return std::nullopt;
  });
}

LogicalResult SliceOp::verify() {
  auto from = getX().getType().getShape(), to = getY().getType().getShape();
  if (from.size() != to.size() || getOffsets().size() != from.size())
    return emitOpError("the rank of 'x', the rank of 'y' and the number of "
                       "offsets must be equal");
  for (auto [i, offset] : llvm::enumerate(getOffsets()))
    if (offset < 0 || offset > from[i] - to[i]) // Constraint C1.
      return emitOpError("reads [")
             << offset << ", " << offset + to[i] << ") of dimension " << i
             << ", which has size " << from[i];
  if (getX().getType().getElementType() != getY().getType().getElementType())
    return emitOpError("'x' and 'y' must have equal element types");
  return success();
}

bool SliceOp::isLinear() { return true; }
Rounding SliceOp::getRounding() { return Rounding::Nothing; }

/// Returns View if the elements of the slice are one contiguous block, or rows
/// of equal length with a constant pitch.
Family SliceOp::getFamily() {
  auto from = getX().getType().getShape(), to = getY().getType().getShape();
  size_t rank = from.size();
  // If only the last dimension is cut, the slice consists of strided rows.
  bool onlyLast = true;
  for (size_t i = 0; i + 1 < rank; ++i)
    onlyLast &= from[i] == to[i];
  if (onlyLast)
    return Family::View;
  // The slice is one contiguous block if, for some i, to[j] == 1 for all j < i
  // and to[j] == from[j] for all j > i.
  size_t i = 0;
  while (i < rank && to[i] == 1)
    ++i;
  for (size_t j = i + 1; j < rank; ++j)
    if (from[j] != to[j])
      return Family::Kernel;
  return Family::View;
}

LogicalResult SliceOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                     Wanted, Gradients gradients) {
  gradients[0] =
      PadOp::create(builder, getLoc(), gradientType(getX().getType()),
                    cotangents[0], getOffsets());
  return success();
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  return getX().getType() == getType() ? OpFoldResult(getX()) : OpFoldResult();
}

void SliceOp::inferSequences(Facts operands, int64_t batch,
                             MutableFacts results) {
  results[0] = inferResized(*this, operands[0], batch);
}

LogicalResult SliceOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  forEachIndex(results[0].shape(), [&](ArrayRef<int64_t> index, int64_t i) {
    SmallVector<int64_t> from;
    for (auto [position, offset] : llvm::zip_equal(index, getOffsets()))
      from.push_back(position + offset);
    copyElement(x, positionOf(from, x.shape()), results[0], i);
  });
  return success();
}

LogicalResult PadOp::verify() {
  auto from = getX().getType().getShape(), to = getY().getType().getShape();
  if (from.size() != to.size() || getLow().size() != from.size())
    return emitOpError("the rank of 'x', the rank of 'y' and the number of "
                       "entries of 'low' must be equal");
  for (auto [i, low] : llvm::enumerate(getLow()))
    if (low < 0 || low > to[i] - from[i]) // Constraint C1.
      return emitOpError("writes [")
             << low << ", " << low + from[i] << ") of dimension " << i
             << ", which has size " << to[i];
  if (getX().getType().getElementType() != getY().getType().getElementType())
    return emitOpError("'x' and 'y' must have equal element types");
  return success();
}

bool PadOp::isLinear() { return true; }
Rounding PadOp::getRounding() { return Rounding::Nothing; }

LogicalResult PadOp::buildGradient(OpBuilder &builder, ValueRange cotangents,
                                   Wanted, Gradients gradients) {
  gradients[0] =
      SliceOp::create(builder, getLoc(), gradientType(getX().getType()),
                      cotangents[0], getLow());
  return success();
}

void PadOp::inferSequences(Facts operands, int64_t batch,
                           MutableFacts results) {
  results[0] = inferResized(*this, operands[0], batch);
}

LogicalResult PadOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  forEachIndex(x.shape(), [&](ArrayRef<int64_t> index, int64_t i) {
    SmallVector<int64_t> to;
    for (auto [position, low] : llvm::zip_equal(index, getLow()))
      to.push_back(position + low);
    copyElement(x, i, results[0], positionOf(to, results[0].shape()));
  });
  return success();
}

LogicalResult ConcatOp::verify() {
  if (getInputs().empty())
    return emitOpError("has no operands, expected at least one");
  int64_t dim = getDim();
  SmallVector<int64_t> shape(tensorTypeOf(getInputs().front()).getShape());
  if (dim < 0 || dim >= static_cast<int64_t>(shape.size()))
    return emitOpError("dim is ")
           << dim << ", expected a dimension below " << shape.size();
  int64_t sum = 0;
  for (Value input : getInputs()) {
    auto type = tensorTypeOf(input);
    if (type.getRank() != static_cast<int64_t>(shape.size()))
      return emitOpError("operands have different ranks");
    sum += type.getDimSize(dim);
    shape[dim] = type.getDimSize(dim);
    if (type.getShape() != ArrayRef<int64_t>(shape)) // Constraint C1.
      return emitOpError("operand of shape ")
             << toString(type.getShape())
             << " cannot be concatenated with operand 0 of shape "
             << toString(tensorTypeOf(getInputs().front()).getShape())
             << " along dimension " << dim;
  }
  shape[dim] = sum;
  return checkShape(*this, "y", getY(), shape, getInputs().front());
}

Family ConcatOp::getFamily() { return Family::Concat; }
bool ConcatOp::isLinear() { return true; }
Rounding ConcatOp::getRounding() { return Rounding::Nothing; }

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

OpFoldResult ConcatOp::fold(FoldAdaptor) {
  return getInputs().size() == 1 ? OpFoldResult(getInputs().front())
                                 : OpFoldResult();
}

/// A concatenation along the dimension that has one part per sequence gives a
/// result without such parts.
void ConcatOp::inferSequences(Facts operands, int64_t batch,
                              MutableFacts results) {
  // The result is the sum of the padded operands, so apply the rule of
  // elementwise ops first.
  inferElementwise(*this, operands, batch, results);
  SequenceFact &y = results[0];
  auto dim = static_cast<int64_t>(getDim());
  if (batch > 1)
    y.repeating &= ~(uint64_t(1) << dim);
  if (y.isPerSequence() && y.dim == dim && batch > 1 && operands.size() > 1)
    y = explain(*this, {});
}

LogicalResult ConcatOp::evaluate(Operands operands, Results results) {
  HostTensor &y = results[0];
  int64_t dim = getDim(), offset = 0;
  for (const HostTensor *input : operands) {
    forEachIndex(input->shape(), [&](ArrayRef<int64_t> index, int64_t i) {
      SmallVector<int64_t> to(index);
      to[dim] += offset;
      copyElement(*input, i, y, positionOf(to, y.shape()));
    });
    offset += input->shape()[dim];
  }
  return success();
}
