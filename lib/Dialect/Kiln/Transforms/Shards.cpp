//===- Shards.cpp - Division of states over ranks -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Shards.h"

#include "kiln/Dialect/Kiln/IR/Layer.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace kiln;

/// A shard of a matrix consists of whole rows if the padding that this requires
/// is at most 1/kLeastShare of the matrix.
static constexpr int64_t kLeastShare = 32;
/// Otherwise the elements of the matrix are divided into rows of this length,
/// and a shard consists of such rows, if this requires at most the same amount
/// of padding.
static constexpr int64_t kColumns = 64;

void kiln::setMesh(ModuleOp module, const support::Mesh &mesh) {
  if (mesh.axes.empty())
    return;
  Builder builder(module.getContext());
  SmallVector<NamedAttribute> axes;
  for (const support::MeshAxis &axis : mesh.axes)
    axes.push_back(
        builder.getNamedAttr(axis.name, builder.getI64IntegerAttr(axis.size)));
  module->setAttr(kMeshAttr, builder.getDictionaryAttr(axes));
}

RankedTensorType kiln::shardTypeOf(RankedTensorType whole, int64_t ranks,
                                   int64_t multiple) {
  int64_t elements = whole.getNumElements();
  // Returns the number of rows that each rank has if the tensor is divided as a
  // matrix with `columns` columns.
  auto rowsOf = [&](int64_t columns) -> int64_t {
    return llvm::alignTo(llvm::divideCeil(elements, columns * ranks),
                         multiple / std::gcd(multiple, columns));
  };
  if (whole.getRank() >= 2)
    for (int64_t columns : {getColumnCount(whole), kColumns}) {
      int64_t rows = rowsOf(columns);
      if (rows * columns * ranks - elements <= elements / kLeastShare)
        return whole.clone({rows, columns});
    }
  int64_t count = std::min<int64_t>(rowsOf(1), elements);
  return whole.getRank() < 2 ? whole.clone({count}) : whole.clone({1, count});
}

Value kiln::concatenate(OpBuilder &builder, Location loc,
                         ArrayRef<Value> vectors) {
  int64_t count = 0;
  for (Value vector : vectors)
    count += tensorTypeOf(vector).getDimSize(0);
  return ConcatOp::create(
      builder, loc, tensorTypeOf(vectors.front()).clone({count}), vectors, 0);
}

Value kiln::totalOverRanks(OpBuilder &builder, Value rowSums, StringRef axis) {
  Location loc = rowSums.getLoc();
  auto scalar = RankedTensorType::get({}, builder.getF64Type());
  Value one = ConstantOp::create(builder, loc, scalar, 1.0);
  Value total = ScaledTotalOp::create(builder, loc, scalar, rowSums, one);
  auto sum = AllReduceOp::create(builder, loc, total, axis);
  return ReshapeOp::create(builder, loc,
                           RankedTensorType::get({1}, builder.getF64Type()),
                           sum.getOutputs().front());
}

Value kiln::gatherWhole(OpBuilder &builder, Value shard, RankedTensorType whole,
                        int64_t owner) {
  auto gather =
      AllGatherOp::create(builder, shard.getLoc(), TypeRange(whole), shard,
                          dataAxis(), ownersAttr(builder.getContext(), owner));
  return gather.getOutputs().front();
}

void kiln::gatherFromOwners(OpBuilder &builder, MutableArrayRef<Value> tensors,
                            ArrayRef<int64_t> owners) {
  if (tensors.empty())
    return;
  auto gather = AllGatherOp::create(
      builder, tensors.front().getLoc(), ValueRange(tensors).getTypes(),
      tensors, dataAxis(), ownersAttr(builder.getContext(), owners));
  llvm::copy(gather.getOutputs(), tensors.begin());
}

/// Inserts an all-gather of the shards of a bucket after the definition of the
/// last shard. Writes the states at the end of the program, where the program
/// waits for the transfer.
static void gatherBucket(MutableArrayRef<UpdatedShard> shards) {
  Value last = shards.back().value;
  OpBuilder builder(last.getContext());
  builder.setInsertionPointAfterValue(last);
  SmallVector<Value> values;
  SmallVector<Type> types;
  SmallVector<int64_t> owners;
  for (UpdatedShard &shard : shards) {
    values.push_back(shard.value);
    types.push_back(shard.state.getType());
    owners.push_back(shard.owner);
  }
  auto gather =
      AllGatherOp::create(builder, last.getLoc(), types, values, dataAxis(),
                          ownersAttr(builder.getContext(), owners));
  setLayer(gather, getDefiningLayer(last));
  builder.setInsertionPoint(gather->getBlock()->getTerminator());
  for (auto [shard, whole] : llvm::zip_equal(shards, gather.getOutputs()))
    WriteOp::create(builder, last.getLoc(),
                    FlatSymbolRefAttr::get(shard.state.getSymNameAttr()),
                    whole);
}

void kiln::gatherStates(std::vector<UpdatedShard> shards, int64_t bucketBytes) {
  llvm::stable_sort(shards, [](const UpdatedShard &a, const UpdatedShard &b) {
    Operation *x = a.value.getDefiningOp(), *y = b.value.getDefiningOp();
    return x != y && x->isBeforeInBlock(y);
  });
  struct Bucket {
    SmallVector<UpdatedShard> shards;
    int64_t bytes = 0;
  };
  llvm::SmallMapVector<Type, Bucket, 2> open;
  for (UpdatedShard &shard : shards) {
    Bucket &bucket = open[tensorTypeOf(shard.value).getElementType()];
    bucket.shards.push_back(shard);
    bucket.bytes += bytesOf(shard.state.getType());
    if (bucket.bytes >= bucketBytes)
      gatherBucket(std::exchange(bucket, {}).shards);
  }
  for (auto &[type, bucket] : open)
    if (!bucket.shards.empty())
      gatherBucket(bucket.shards);
}
