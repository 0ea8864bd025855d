//===- ReduceGradients.cpp - Sums of gradients over ranks --------*- C++
//-*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "ReduceGradients.h"

#include "Shards.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"

#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace kiln;

namespace {

/// The position at which a value is complete: the number of its defining op
/// and, for a sum over micro-batches, the number of the op in the micro-batch
/// that adds to the sum. The second number is -1 for other values.
using Position = std::pair<int64_t, int64_t>;

/// The position at which a gradient is complete, and how ranks divide its sum.
struct CompleteGradient {
  Position complete;
  RankedTensorType shard; ///< See SummedGradient.
  int64_t owner = kNoOwner;
};

struct Bucket {
  SmallVector<Value> values;
  SmallVector<Type> shards; ///< Empty if each rank gets the whole sums.
  SmallVector<int64_t> owners;
  int64_t bytes = 0;
  Position complete;
};

} // namespace

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

/// Inserts the collective that sums the values of a bucket over the ranks.
/// Inserts it after the definition of the last value of the bucket.
static Operation *reduceBucket(const Bucket &bucket, StringRef axis) {
  Value last = bucket.values.back();
  OpBuilder builder(last.getContext());
  builder.setInsertionPointAfterValue(last);
  Operation *reduce;
  if (bucket.shards.empty())
    reduce = AllReduceOp::create(builder, last.getLoc(), bucket.values, axis);
  else
    reduce = ReduceScatterOp::create(
        builder, last.getLoc(), bucket.shards, bucket.values, axis,
        ownersAttr(last.getContext(), bucket.owners));
  setLayer(reduce, getDefiningLayer(last));
  return reduce;
}

Value kiln::reduceLoss(Value loss) {
  Bucket bucket;
  bucket.values.push_back(loss);
  return reduceBucket(bucket, dataAxis())->getResult(0);
}

Value kiln::averageOverRanks(Value scalar, int64_t ranks) {
  OpBuilder builder(scalar.getContext());
  builder.setInsertionPointAfterValue(scalar);
  auto part = ScaleOp::create(builder, scalar.getLoc(), scalar,
                              builder.getF64FloatAttr(1.0 / double(ranks)));
  setLayer(part, getDefiningLayer(scalar));
  return reduceLoss(part);
}

void kiln::reduceGradients(Block &block, ArrayRef<SummedGradient> gradients,
                           int64_t bucketBytes, StringRef axis) {
  DenseMap<Operation *, int64_t> numbers = numberOps(block);
  llvm::SmallMapVector<Value, CompleteGradient, 32> complete;
  for (const SummedGradient &summed : gradients) {
    Value value = summed.gradient->value;
    complete.try_emplace(value, CompleteGradient{positionOf(value, numbers),
                                                 summed.shard, summed.owner});
  }
  auto ordered = complete.takeVector();
  llvm::stable_sort(ordered, [](const auto &a, const auto &b) {
    return a.second.complete < b.second.complete;
  });

  std::vector<Bucket> buckets;
  llvm::SmallMapVector<Type, Bucket, 2> open;
  for (auto &[value, gradient] : ordered) {
    Bucket &bucket = open[tensorTypeOf(value).getElementType()];
    bucket.values.push_back(value);
    if (gradient.shard) {
      bucket.shards.push_back(gradient.shard);
      bucket.owners.push_back(gradient.owner);
    }
    bucket.bytes += bytesOf(value.getType());
    bucket.complete = gradient.complete;
    if (bucket.bytes >= bucketBytes)
      buckets.push_back(std::exchange(bucket, {}));
  }
  for (auto &[type, bucket] : open)
    if (!bucket.values.empty())
      buckets.push_back(std::move(bucket));
  llvm::stable_sort(buckets, [](const Bucket &a, const Bucket &b) {
    return a.complete < b.complete;
  });

  DenseMap<Value, PlacedValue> sums;
  Operation *previous = nullptr;
  for (const Bucket &bucket : buckets) {
    Operation *reduce = reduceBucket(bucket, axis);
    // Buckets that are complete at the same op keep their order.
    if (previous && reduce->isBeforeInBlock(previous))
      reduce->moveAfter(previous);
    if (previous)
      for (auto &[value, sum] : sums)
        if (sum.value.getDefiningOp() == previous)
          sum.readAfter = reduce;
    for (auto [value, sum] :
         llvm::zip_equal(bucket.values, reduce->getResults()))
      sums[value] = {sum, nullptr};
    previous = reduce;
  }
  for (const SummedGradient &summed : gradients)
    *summed.gradient = sums.lookup(summed.gradient->value);
}

void kiln::placeReader(OpBuilder &builder, const PlacedValue &gradient,
                       ProgramOp program) {
  if (gradient.readAfter)
    builder.setInsertionPointAfter(gradient.readAfter);
  else
    builder.setInsertionPoint(program.getReturn());
}

void kiln::placeUpdateEarly(OpBuilder &builder, const PlacedValue &gradient,
                            Value entry) {
  Operation *last = gradient.readAfter;
  if (!last) // All readers of the gradient are at the end of the program.
    return;
  for (Operation *reader : entry.getUsers())
    if (!isa<ReturnOp>(reader) && last->isBeforeInBlock(reader))
      last = reader;
  builder.setInsertionPointAfter(last);
}
