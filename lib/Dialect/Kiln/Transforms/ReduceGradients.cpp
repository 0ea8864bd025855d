//===- ReduceGradients.cpp - Sums over data-parallel ranks ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReduceGradients.h"

#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Support/Mesh.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kiln;

namespace {

/// The position at which a value is complete: that of its defining op, and for
/// a sum over micro-batches also that of the op that adds to it.
using Position = std::pair<int64_t, int64_t>;

struct Bucket {
  SmallVector<Value> values;
  int64_t bytes = 0;
  Position complete;
};

} // namespace

static StringRef dataAxis() {
  return {support::dataAxis.data(), support::dataAxis.size()};
}

/// Numbers the ops of a block, and those of the micro-batches in it.
static DenseMap<Operation *, int64_t> numberOps(Block &block) {
  DenseMap<Operation *, int64_t> numbers;
  block.walk([&](Operation *op) {
    numbers.try_emplace(op, static_cast<int64_t>(numbers.size()));
  });
  return numbers;
}

static Position
positionOf(Value value, const DenseMap<Operation *, int64_t> &numbers) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return {-1, -1};
  Operation *inner = nullptr;
  if (auto microbatches = dyn_cast<MicrobatchesOp>(op)) {
    unsigned number = cast<OpResult>(value).getResultNumber();
    inner = microbatches.getBody()
                .getTerminator()
                ->getOperand(number)
                .getDefiningOp();
  }
  return {numbers.lookup(op), inner ? numbers.lookup(inner) : -1};
}

/// Inserts an all-reduce after the last definition of a value of the bucket.
static AllReduceOp reduceBucket(const Bucket &bucket) {
  Value last = bucket.values.back();
  OpBuilder builder(last.getContext());
  builder.setInsertionPointAfterValue(last);
  auto reduce =
      AllReduceOp::create(builder, last.getLoc(), bucket.values, dataAxis());
  setLayer(reduce, getDefiningLayer(last));
  return reduce;
}

void kiln::reduceGradients(Value &loss,
                           MutableArrayRef<PlacedValue *> gradients,
                           int64_t bucketBytes) {
  DenseMap<Operation *, int64_t> numbers = numberOps(*loss.getParentBlock());
  llvm::SmallMapVector<Value, Position, 32> complete;
  for (PlacedValue *gradient : gradients)
    complete.try_emplace(gradient->value,
                         positionOf(gradient->value, numbers));
  auto ordered = complete.takeVector();
  llvm::stable_sort(ordered, llvm::less_second());

  std::vector<Bucket> buckets;
  llvm::SmallMapVector<Type, Bucket, 2> open;
  for (auto &[value, position] : ordered) {
    Bucket &bucket = open[tensorTypeOf(value).getElementType()];
    bucket.values.push_back(value);
    bucket.bytes += bytesOf(value.getType());
    bucket.complete = position;
    if (bucket.bytes >= bucketBytes)
      buckets.push_back(std::exchange(bucket, {}));
  }
  for (auto &[type, bucket] : open)
    if (!bucket.values.empty())
      buckets.push_back(std::move(bucket));
  llvm::stable_sort(buckets, [](const Bucket &a, const Bucket &b) {
    return a.complete < b.complete;
  });

  Bucket ofLoss;
  ofLoss.values.push_back(loss);
  loss = reduceBucket(ofLoss).getSums().front();
  DenseMap<Value, PlacedValue> sums;
  Operation *previous = nullptr;
  for (const Bucket &bucket : buckets) {
    AllReduceOp reduce = reduceBucket(bucket);
    // Buckets that are complete at the same op keep their order.
    if (previous && reduce->isBeforeInBlock(previous))
      reduce->moveAfter(previous);
    if (previous)
      for (auto &[value, sum] : sums)
        if (sum.value.getDefiningOp() == previous)
          sum.readAfter = reduce;
    for (auto [value, sum] : llvm::zip_equal(bucket.values, reduce.getSums()))
      sums[value] = {sum, nullptr};
    previous = reduce;
  }
  for (PlacedValue *gradient : gradients)
    *gradient = sums.lookup(gradient->value);
}
