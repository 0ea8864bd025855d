//===- GraphIndexSteps.cpp - Steps on integers ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Permutes, slices and repeats tokens and targets before other ops use them.
//
//===----------------------------------------------------------------------===//

#include "Generator.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"

using namespace mlir;
using namespace kiln;

/// Maximum number of elements of an index tensor. With more indices, the result
/// of a lookup could have more than kMostElements elements.
static constexpr int64_t kMostIds = 96;

/// Adds a new index tensor. It contains elements of an existing index tensor in
/// a different arrangement, and possibly zeros as padding.
void Generator::moveIds() {
  Value x = ids[upTo(ids.size())];
  auto type = tensorTypeOf(x);
  int64_t rank = type.getRank();
  SmallVector<int64_t> shape(type.getShape()), offsets(rank, 0);
  auto like = [&](ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, type.getElementType());
  };
  auto keep = [&](Value y) {
    if (isUsable(y))
      ids.push_back(y);
  };
  int64_t dim = upTo(rank), size = shape[dim];
  switch (upTo(6)) {
  case 0: // Slice one dimension.
    shape[dim] = 1 + upTo(size);
    offsets[dim] = upTo(size - shape[dim] + 1);
    if (shape[dim] < size)
      keep(make<SliceOp>(like(shape), x, offsets));
    return;
  case 1: { // Swap two dimensions.
    auto permutation = llvm::to_vector(llvm::seq<int64_t>(0, rank));
    std::swap(permutation[dim], permutation[upTo(rank)]);
    for (int64_t i = 0; i < rank; ++i)
      shape[i] = type.getDimSize(permutation[i]);
    keep(make<TransposeOp>(like(shape), x, permutation));
    return;
  }
  case 2: // Split the dimension of a vector, or flatten a tensor.
    if (rank == 1 && size % 2 == 0)
      keep(make<ReshapeOp>(like({size / 2, 2}), x));
    else if (rank > 1)
      keep(make<ReshapeOp>(like({type.getNumElements()}), x));
    return;
  case 3: // Concatenate the tensor with itself.
    shape[dim] *= 2;
    if (2 * type.getNumElements() <= kMostIds)
      keep(make<ConcatOp>(like(shape), ValueRange{x, x}, integer(dim)));
    return;
  case 4: // Pad one dimension with zeros.
    offsets[dim] = upTo(3);
    shape[dim] += offsets[dim] + upTo(2);
    if (like(shape).getNumElements() <= kMostIds && shape[dim] > size)
      keep(make<PadOp>(like(shape), x, offsets));
    return;
  default: { // Repeat the tensor along a new dimension.
    int64_t count = oneOf({2, 3});
    auto dims = llvm::to_vector(llvm::seq<int64_t>(0, rank + 1));
    dims.erase(dims.begin() + dim);
    shape.insert(shape.begin() + dim, count);
    if (rank < 4 && count * type.getNumElements() <= kMostIds)
      keep(make<BroadcastOp>(like(shape), x, dims));
    return;
  }
  }
}

/// Returns one target per token: the targets, possibly in a different order.
Value Generator::shuffledTargets() {
  auto type = tensorTypeOf(targets);
  auto like = [&](ArrayRef<int64_t> shape) {
    return RankedTensorType::get(shape, type.getElementType());
  };
  if (chance(50) || length < 2)
    return targets;
  if (chance(30))
    return make<ReshapeOp>(like({batch * length}), targets);
  if (!splits && chance(30))
    return make<TransposeOp>(like({length, batch}), targets,
                             ArrayRef<int64_t>{1, 0});
  int64_t cut = 1 + upTo(length - 1);
  Value low =
      make<SliceOp>(like({batch, cut}), targets, ArrayRef<int64_t>{0, 0});
  Value high = make<SliceOp>(like({batch, length - cut}), targets,
                             ArrayRef<int64_t>{0, cut});
  return make<ConcatOp>(type, ValueRange{high, low}, integer(1));
}
