//===- ExpandLoss.cpp - Expansion of losses into row ops --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The linear head and its loss are computed in chunks. Chunk i has `rows` rows
// and computes:
//
//   logits_i  = hidden_i weight^T
//   loss_i, dlogits_i = softmax_cross_entropy(logits_i, targets_i, scale)
//   dhidden_i = dlogits_i weight
//   dweight  += dlogits_i^T hidden_i
//
//===----------------------------------------------------------------------===//

#include "Shards.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_EXPANDLOSS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

struct Expansion {
  LayerListener layer;
  OpBuilder builder;
  Location loc;
  explicit Expansion(Operation *op)
      : layer(getLayer(op)), builder(op, &layer), loc(op->getLoc()) {}

  RankedTensorType typeLike(Value like, ArrayRef<int64_t> shape) {
    return tensorTypeOf(like).clone(shape);
  }
  Value flatTargets(Value targets) {
    return ReshapeOp::create(
               builder, loc,
               typeLike(targets, tensorTypeOf(targets).getNumElements()),
               targets)
        .getResult();
  }
  Value rowsOf(Value x, int64_t begin, int64_t count) {
    auto type = tensorTypeOf(x);
    if (count == type.getDimSize(0))
      return x;
    SmallVector<int64_t> shape(type.getShape()), offsets(type.getRank(), 0);
    shape[0] = count;
    offsets[0] = begin;
    return SliceOp::create(builder, loc, typeLike(x, shape), x, offsets);
  }
  Value join(ArrayRef<Value> parts, Type type) {
    if (parts.size() == 1)
      return parts.front();
    return ConcatOp::create(builder, loc, type, parts, 0);
  }
  /// Builds the loss of each row and, if `gradient` is set, the gradient of the
  /// logits.
  SoftmaxCrossEntropyOp rowLosses(Value logits, Value targets, Value scale,
                                  bool gradient) {
    auto rows =
        fullPrecision(typeLike(logits, tensorTypeOf(logits).getDimSize(0)));
    return SoftmaxCrossEntropyOp::create(builder, loc, rows,
                                         gradient ? logits.getType() : Type(),
                                         logits, targets, scale);
  }
  /// Builds the loss of each row of logits whose classes are divided over
  /// ranks.
  ShardCrossEntropyOp shardedRowLosses(Value logits, Value targets, Value scale,
                                       Value rank, int64_t classes,
                                       bool gradient);
  /// Transposes a tensor [ranks, rows] of numbers that were gathered from all
  /// ranks.
  Value gathered(Value all) {
    auto type = tensorTypeOf(all);
    return TransposeOp::create(
        builder, loc, typeLike(all, {type.getDimSize(1), type.getDimSize(0)}),
        all, ArrayRef<int64_t>{1, 0});
  }
  Value reduce(Reduction kind, Value x) {
    return ReduceOp::create(builder, loc,
                            typeLike(x, tensorTypeOf(x).getDimSize(0)), kind, x,
                            ArrayRef<int64_t>{1});
  }
  /// Returns the factor of the gradients of all rows. `cotangent` may be null,
  /// which means 1.
  Value gradientFactor(Value scale, Value cotangent) {
    return cotangent ? MulOp::create(builder, loc, scale, cotangent).getResult()
                     : scale;
  }
  Value total(Value rows, Value scale) {
    return ScaledTotalOp::create(builder, loc, scale.getType(), rows, scale);
  }
};

} // namespace

ShardCrossEntropyOp Expansion::shardedRowLosses(Value logits, Value targets,
                                                Value scale, Value rank,
                                                int64_t classes,
                                                bool gradient) {
  int64_t count = tensorTypeOf(logits).getDimSize(0);
  int64_t ranks = meshSizeOf(
      logits.getDefiningOp()->getParentOfType<ModuleOp>(), tensorAxis());
  auto rows = fullPrecision(typeLike(logits, count));
  auto own = ShardSoftmaxOp::create(builder, loc, rows, rows, logits, targets,
                                    rank, classes);
  auto whole = rows.clone({ranks, count});
  auto all =
      AllGatherOp::create(builder, loc, {whole, whole},
                          {own.getLogSum(), own.getAtTarget()}, tensorAxis());
  Value sums = gathered(all.getOutputs()[0]);
  Value most = reduce(Reduction::Max, sums);
  Value each = BroadcastOp::create(builder, loc, sums.getType(), most,
                                   ArrayRef<int64_t>{0});
  Value shifted = SubOp::create(builder, loc, sums, each);
  Value exponentials =
      reduce(Reduction::Sum, ExpOp::create(builder, loc, shifted));
  Value logSum = AddOp::create(builder, loc, most,
                               LogOp::create(builder, loc, exponentials));
  Value atTarget = reduce(Reduction::Sum, gathered(all.getOutputs()[1]));
  return ShardCrossEntropyOp::create(
      builder, loc, rows, gradient ? logits.getType() : Type(), logits, targets,
      rank, logSum, atTarget, scale, classes);
}

/// Returns the number of rows per chunk, for chunks of nearly equal size. This
/// number affects results, because it fixes the order in which the weight
/// gradient is summed.
static int64_t chooseRows(int64_t rows, int64_t vocabulary,
                          int64_t logitsPerChunk) {
  int64_t most = std::max<int64_t>(logitsPerChunk / vocabulary / 64 * 64, 64);
  int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
}

/// Returns the cotangent of an op that computes a loss and its gradients, or
/// null if the cotangent is 1.
static Value cotangentOf(Operation *op) {
  if (auto loss = dyn_cast<CrossEntropyGradOp>(op))
    return loss.getCotangent();
  auto loss = dyn_cast<LinearCrossEntropyGradOp>(op);
  return loss ? loss.getCotangent() : Value();
}

static void expandCrossEntropy(Operation *op, bool gradient) {
  Expansion e(op);
  Value logits = op->getOperand(0), scale = op->getOperand(2);
  Value factor = e.gradientFactor(scale, cotangentOf(op));
  auto rows =
      e.rowLosses(logits, e.flatTargets(op->getOperand(1)), factor, gradient);
  op->getResult(0).replaceAllUsesWith(e.total(rows.getRowLoss(), scale));
  if (gradient)
    op->getResult(1).replaceAllUsesWith(rows.getDlogits());
  op->erase();
}

/// Returns the index of this rank if the classes of a linear_cross_entropy are
/// divided over ranks, or null.
static Value rankOf(Operation *op) {
  if (auto loss = dyn_cast<LinearCrossEntropyOp>(op))
    return loss.getRank();
  return cast<LinearCrossEntropyGradOp>(op).getRank();
}

static void expandLinearCrossEntropy(Operation *op, int64_t rowsPerChunk,
                                     bool gradient) {
  Expansion e(op);
  Value rank = rankOf(op);
  Value hidden = op->getOperand(0), weight = op->getOperand(1),
        scale = op->getOperand(3);
  Value targets = e.flatTargets(op->getOperand(2));
  int64_t rows = tensorTypeOf(hidden).getDimSize(0);
  Value factor = e.gradientFactor(scale, cotangentOf(op));
  SmallVector<Value> losses, hiddenGradients;
  Value weightGradient;
  for (int64_t begin = 0; begin < rows; begin += rowsPerChunk) {
    int64_t count = std::min(rowsPerChunk, rows - begin);
    Value part = e.rowsOf(hidden, begin, count);
    Value logits =
        MatmulOp::create(e.builder, e.loc, part, weight, false, true);
    Value some = e.rowsOf(targets, begin, count);
    Operation *chunk =
        rank
            ? e.shardedRowLosses(
                   logits, some, factor, rank,
                   op->getAttrOfType<IntegerAttr>("classes").getInt(), gradient)
                  .getOperation()
            : e.rowLosses(logits, some, factor, gradient).getOperation();
    losses.push_back(chunk->getResult(0));
    if (!gradient)
      continue;
    Value dlogits = chunk->getResult(1);
    hiddenGradients.push_back(
        MatmulOp::create(e.builder, e.loc, dlogits, weight, false, false));
    auto matmul =
        MatmulOp::create(e.builder, e.loc, dlogits, part, true, false);
    // The gradients of the chunks are summed in f32.
    matmul.getResult().setType(fullPrecision(matmul.getType()));
    if (weightGradient)
      matmul.getAccumulateMutable().assign(weightGradient);
    weightGradient = matmul;
  }
  Value joined = e.join(losses, fullPrecision(e.typeLike(hidden, rows)));
  op->getResult(0).replaceAllUsesWith(e.total(joined, scale));
  if (gradient) {
    op->getResult(1).replaceAllUsesWith(
        e.join(hiddenGradients, hidden.getType()));
    op->getResult(2).replaceAllUsesWith(e.builder.createOrFold<CastOp>(
        e.loc, op->getResult(2).getType(), weightGradient));
  }
  op->erase();
}

namespace {

struct ExpandLossPass : kiln::impl::ExpandLossBase<ExpandLossPass> {
  using ExpandLossBase::ExpandLossBase;

  void runOnOperation() override {
    SmallVector<Operation *> losses;
    getOperation().walk([&](Operation *op) {
      if (isa<CrossEntropyOp, CrossEntropyGradOp, LinearCrossEntropyOp,
              LinearCrossEntropyGradOp>(op))
        losses.push_back(op);
    });
    for (Operation *op : losses) {
      if (isa<CrossEntropyOp, CrossEntropyGradOp>(op)) {
        expandCrossEntropy(op, isa<CrossEntropyGradOp>(op));
        continue;
      }
      int64_t rows =
          chooseRows(tensorTypeOf(op->getOperand(0)).getDimSize(0),
                     tensorTypeOf(op->getOperand(1)).getDimSize(0), logits);
      if (auto attr = op->getAttrOfType<IntegerAttr>("rows"))
        rows = attr.getInt();
      expandLinearCrossEntropy(op, rows, isa<LinearCrossEntropyGradOp>(op));
    }
  }
};

} // namespace
