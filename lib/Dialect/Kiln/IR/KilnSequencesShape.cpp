//===- KilnSequencesShape.cpp - Sequence rules of shape ops -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements SequenceOpInterface for ops that move, replicate or sum elements,
// and for matmuls. The rules compute which dimension of the result has one part
// per sequence.
//
//===----------------------------------------------------------------------===//

#include "SequenceRules.h"

#include <numeric>

using namespace mlir;
using namespace kiln;
using namespace kiln::sequences;

using Facts = ArrayRef<SequenceFact>;
using Results = MutableArrayRef<SequenceFact>;
/// Maps a dimension of the operand to the dimension of the result that has the
/// same parts.
using DimMap = llvm::function_ref<std::optional<int64_t>(int64_t dim)>;

uint64_t sequences::dividedDims(RankedTensorType type, int64_t batch) {
  uint64_t dims = 0;
  for (auto [dim, size] : llvm::enumerate(type.getShape()))
    if (dim < 64 && size % batch == 0)
      dims |= uint64_t(1) << dim;
  return dims;
}

/// Returns the fact of an op that moves the elements of `x` without changing
/// them, or sums some of them.
static SequenceFact inferMoved(Operation *op, const SequenceFact &x,
                               DimMap map) {
  SequenceFact y = x;
  if (x.isPerSequence()) {
    std::optional<int64_t> dim = map(x.dim);
    if (!dim)
      return explain(op, {});
    y.dim = *dim;
  }
  y.repeating = 0;
  for (int64_t dim = 0; x.isShared() && dim < 64; ++dim)
    if (x.splitsAlong(dim))
      if (std::optional<int64_t> to = map(dim); to && *to < 64)
        y.repeating |= uint64_t(1) << *to;
  return y;
}

//===----------------------------------------------------------------------===//
// Changes of shape.
//===----------------------------------------------------------------------===//

bool BroadcastOp::isLinear() { return true; }
bool ReshapeOp::isLinear() { return true; }
bool TransposeOp::isLinear() { return true; }
bool SliceOp::isLinear() { return true; }
bool ConcatOp::isLinear() { return true; }
bool PadOp::isLinear() { return true; }
bool ReduceOp::isLinear() { return getKind() != Reduction::Max; }

void BroadcastOp::inferSequences(Facts operands, int64_t batch,
                                 Results results) {
  ArrayRef<int64_t> from = tensorTypeOf(getX()).getShape();
  ArrayRef<int64_t> to = tensorTypeOf(getY()).getShape(), dims = getDims();
  auto rank = static_cast<int64_t>(from.size());
  results[0] = inferMoved(*this, operands[0],
                          [&](int64_t dim) -> std::optional<int64_t> {
                            if (dim >= rank || to[dims[dim]] % batch != 0)
                              return std::nullopt;
                            return dims[dim];
                          });
  // A dimension along which all elements are equal has equal parts.
  uint64_t repeated = dividedDims(tensorTypeOf(getY()), batch);
  for (auto [size, dim] : llvm::zip_equal(from, dims))
    if (size == to[dim])
      repeated &= ~(uint64_t(1) << dim);
  if (results[0].isShared())
    results[0].repeating |= repeated;
}

/// The parts of a dimension are contiguous ranges of elements in row-major
/// order, within each index of the preceding dimensions.
void ReshapeOp::inferSequences(Facts operands, int64_t batch, Results results) {
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

void TransposeOp::inferSequences(Facts operands, int64_t, Results results) {
  ArrayRef<int64_t> permutation = getPermutation();
  results[0] = inferMoved(*this, operands[0],
                          [&](int64_t dim) -> std::optional<int64_t> {
                            auto found = llvm::find(permutation, dim);
                            if (found == permutation.end())
                              return std::nullopt;
                            return found - permutation.begin();
                          });
}

/// Returns the fact of a slice or pad, which preserves the parts of dimensions
/// whose extent does not change.
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

void SliceOp::inferSequences(Facts operands, int64_t batch, Results results) {
  results[0] = inferResized(*this, operands[0], batch);
}
void PadOp::inferSequences(Facts operands, int64_t batch, Results results) {
  results[0] = inferResized(*this, operands[0], batch);
}

/// Concatenation along the dimension of the sequences destroys the parts.
void ConcatOp::inferSequences(Facts operands, int64_t batch, Results results) {
  // The result is a sum of padded tensors.
  inferElementwise(*this, operands, batch, results);
  SequenceFact &y = results[0];
  auto dim = static_cast<int64_t>(getDim());
  if (batch > 1)
    y.repeating &= ~(uint64_t(1) << dim);
  if (y.isPerSequence() && y.dim == dim && batch > 1 && operands.size() > 1)
    y = explain(*this, {});
}

//===----------------------------------------------------------------------===//
// Sums.
//===----------------------------------------------------------------------===//

void ReduceOp::inferSequences(Facts operands, int64_t, Results results) {
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

namespace {
/// Dimensions of the operands and the result of a matmul.
struct MatmulDims {
  int64_t rowsOfA, innerOfA, innerOfB, columnsOfB, rows, columns;
};
} // namespace

static SequenceFact inferMatmul(MatmulOp op, Facts operands,
                                const MatmulDims &dims) {
  const SequenceFact &a = operands[0], &b = operands[1];
  int64_t degree = a.degree + b.degree;
  if (findOpaque(operands) || a.isMixed() || b.isMixed())
    return explain(op, operands);
  if (allShared({a, b}))
    return SequenceFact::shared(
        degree,
        (a.splitsAlong(dims.rowsOfA) ? uint64_t(1) << dims.rows : 0) |
            (b.splitsAlong(dims.columnsOfB) ? uint64_t(1) << dims.columns : 0));
  if ((a.isTotal() && b.isShared()) || (a.isShared() && b.isTotal()))
    return SequenceFact::total(degree);
  // Leading dimensions are common to both operands and the result.
  for (int64_t dim = 0; dim < dims.rows; ++dim)
    if (a.splitsAlong(dim) && b.splitsAlong(dim) &&
        (a.isPerSequence() || b.isPerSequence()))
      return SequenceFact::perSequence(dim, degree);
  if (a.isPerSequence() && a.dim == dims.rowsOfA && b.isShared())
    return SequenceFact::perSequence(dims.rows, degree);
  if (b.isPerSequence() && b.dim == dims.columnsOfB && a.isShared())
    return SequenceFact::perSequence(dims.columns, degree);
  if (a.splitsAlong(dims.innerOfA) && b.splitsAlong(dims.innerOfB) &&
      (a.isPerSequence() || b.isPerSequence()))
    return SequenceFact::total(degree);
  return explain(op, {a, b});
}

void MatmulOp::inferSequences(Facts operands, int64_t batch, Results results) {
  int64_t last = getY().getType().getRank() - 1, first = last - 1;
  MatmulDims dims;
  dims.rows = first;
  dims.columns = last;
  dims.rowsOfA = getTransA() ? last : first;
  dims.innerOfA = getTransA() ? first : last;
  dims.innerOfB = getTransB() ? last : first;
  dims.columnsOfB = getTransB() ? first : last;
  results[0] = inferMatmul(*this, operands.take_front(2), dims);
  if (!getAccumulate())
    return;
  results[0] = inferSum(*this, {results[0], operands[2]});
  // A mixed sum is split along ops that are linear in all operands together,
  // but a matmul is linear in each factor separately.
  if (results[0].isMixed())
    results[0] =
        SequenceFact::opaque(*this, "adds a matmul to a term that does not "
                                    "scale with the sequences in the same way");
}
