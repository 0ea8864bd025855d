//===- GraphShapeSteps.cpp - Steps that change shapes -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Reductions, lookups and ops that move elements.
//
//===----------------------------------------------------------------------===//

#include "Generator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace kiln;

/// Returns 0, 1, ..., rank - 1.
static SmallVector<int64_t> upToRank(int64_t rank) {
  return llvm::to_vector(llvm::seq<int64_t>(0, rank));
}

std::optional<Entry> Generator::reduce() {
  Entry x = any();
  int64_t rank = x.type().getRank();
  if (rank < 2)
    return std::nullopt;
  SmallVector<int64_t> dims, shape;
  for (int64_t dim = 0; dim < rank; ++dim)
    if (chance(50) && dims.size() + 1 < static_cast<size_t>(rank))
      dims.push_back(dim);
    else
      shape.push_back(x.type().getDimSize(dim));
  if (dims.empty())
    return std::nullopt;
  auto kind = static_cast<Reduction>(upTo(3));
  double magnitude = x.magnitude;
  Value y = make<ReduceOp>(tensor(shape), kind, x.value, dims);
  if (kind == Reduction::Sum)
    magnitude *= x.type().getNumElements() / tensorTypeOf(y).getNumElements();
  return Entry{y, magnitude, kind == Reduction::Sum ? 0 : x.low};
}

/// Subtracts from a value its mean or maximum along the last dimension.
std::optional<Entry> Generator::centre() {
  Entry x = any();
  int64_t rank = x.type().getRank();
  if (rank < 2)
    return std::nullopt;
  ArrayRef<int64_t> shape = x.type().getShape().drop_back();
  auto kind = chance(50) ? Reduction::Mean : Reduction::Max;
  Value mean =
      make<ReduceOp>(tensor(shape), kind, x.value, ArrayRef<int64_t>{rank - 1});
  SmallVector<int64_t> dims = upToRank(rank - 1);
  if (chance(40)) {
    // Append a dimension of size 1 before the broadcast.
    SmallVector<int64_t> kept(shape);
    kept.push_back(1);
    mean = make<ReshapeOp>(tensor(kept), mean);
    dims.push_back(rank - 1);
  }
  Value spread = make<BroadcastOp>(x.type(), mean, dims);
  return Entry{make<SubOp>(x.value, spread), 2 * x.magnitude};
}

/// Repeats a value along a new dimension.
std::optional<Entry> Generator::broadcast() {
  Entry x = any();
  int64_t rank = x.type().getRank(), size = oneOf({1, 2, 3, 5});
  if (rank >= 4 || x.type().getNumElements() * size > kMostElements)
    return std::nullopt;
  int64_t at = upTo(rank + 1);
  SmallVector<int64_t> shape(x.type().getShape()), dims;
  shape.insert(shape.begin() + at, size);
  for (int64_t dim = 0; dim <= rank; ++dim)
    if (dim != at)
      dims.push_back(dim);
  return Entry{make<BroadcastOp>(tensor(shape), x.value, dims), x.magnitude,
               x.low};
}

std::optional<Entry> Generator::reshape() {
  Entry x = any();
  int64_t left = x.type().getNumElements();
  SmallVector<int64_t> shape;
  for (int64_t parts = upTo(4); parts > 0 && left > 1; --parts) {
    SmallVector<int64_t> divisors;
    for (int64_t d = 1; d <= left; ++d)
      if (left % d == 0)
        divisors.push_back(d);
    shape.push_back(oneOf(divisors));
    left /= shape.back();
  }
  shape.push_back(left);
  if (ArrayRef<int64_t>(shape) == x.type().getShape())
    return std::nullopt;
  return Entry{make<ReshapeOp>(tensor(shape), x.value), x.magnitude, x.low};
}

std::optional<Entry> Generator::transpose() {
  Entry x = any();
  int64_t rank = x.type().getRank();
  if (rank < 2)
    return std::nullopt;
  SmallVector<int64_t> permutation = upToRank(rank), shape;
  for (int64_t i = rank - 1; i > 0; --i)
    std::swap(permutation[i], permutation[upTo(i + 1)]);
  for (int64_t dim : permutation)
    shape.push_back(x.type().getDimSize(dim));
  return Entry{make<TransposeOp>(tensor(shape), x.value, permutation),
               x.magnitude, x.low};
}

std::optional<Entry> Generator::slice() {
  Entry x = any();
  if (x.type().getRank() == 0)
    return std::nullopt;
  SmallVector<int64_t> offsets, shape;
  for (int64_t size : x.type().getShape()) {
    bool whole = chance(50);
    int64_t count = whole ? size : 1 + upTo(size);
    shape.push_back(count);
    offsets.push_back(upTo(size - count + 1));
  }
  if (ArrayRef<int64_t>(shape) == x.type().getShape())
    return std::nullopt;
  return Entry{make<SliceOp>(tensor(shape), x.value, offsets), x.magnitude,
               x.low};
}

std::optional<Entry> Generator::concat() {
  Entry x = any();
  int64_t rank = x.type().getRank();
  if (rank == 0)
    return std::nullopt;
  int64_t dim = upTo(rank);
  auto fits = [&](const Entry &e) {
    if (e.type().getRank() != rank)
      return false;
    for (int64_t i = 0; i < rank; ++i)
      if (i != dim && e.type().getDimSize(i) != x.type().getDimSize(i))
        return false;
    return true;
  };
  SmallVector<Value> inputs = {x.value};
  SmallVector<int64_t> shape(x.type().getShape());
  double magnitude = x.magnitude;
  for (int64_t more = 1 + upTo(2); more > 0; --more) {
    Entry next = *anyWhere(fits);
    inputs.push_back(next.value);
    shape[dim] += next.type().getDimSize(dim);
    magnitude = std::max(magnitude, next.magnitude);
  }
  auto type = tensor(shape);
  if (type.getNumElements() > kMostElements)
    return std::nullopt;
  return Entry{make<ConcatOp>(type, inputs, integer(dim)), magnitude};
}

std::optional<Entry> Generator::pad() {
  Entry x = any();
  if (x.type().getRank() == 0)
    return std::nullopt;
  SmallVector<int64_t> low, shape;
  for (int64_t size : x.type().getShape()) {
    low.push_back(upTo(3));
    shape.push_back(size + low.back() + upTo(2));
  }
  auto type = tensor(shape);
  if (type == x.type() || type.getNumElements() > kMostElements)
    return std::nullopt;
  return Entry{make<PadOp>(type, x.value, low), x.magnitude};
}

/// Converts a value from f32 to f64 or from f64 to f32, squares the converted
/// value, and converts the square back.
std::optional<Entry> Generator::precision() {
  Entry x = any();
  Type other =
      element.isF32() ? Type(builder.getF64Type()) : Type(builder.getF32Type());
  Value cast = make<CastOp>(x.type().clone(other), x.value);
  Value square = make<MulOp>(cast, cast);
  return Entry{make<CastOp>(x.type(), square), x.magnitude * x.magnitude};
}

/// Looks up indices in a new table, which may have a padding index.
std::optional<Entry> Generator::lookUp(Value ids) {
  int64_t width = oneOf({1, 3, 4, 8, 16, 20});
  int64_t rows = tensorTypeOf(ids).getNumElements();
  if (rows * width > kMostElements)
    return std::nullopt;
  Entry table = parameter({vocabulary, width}, 0, 0.5);
  IntegerAttr padding = chance(25) ? integer(upTo(vocabulary)) : IntegerAttr();
  return Entry{make<EmbeddingOp>(tensor({rows, width}), ids, table.value,
                                 /*rank=*/Value(), padding),
               table.magnitude};
}

std::optional<Entry> Generator::lookup() {
  for (int64_t moves = upTo(3); moves > 0; --moves)
    moveIds();
  return lookUp(ids[upTo(ids.size())]);
}
