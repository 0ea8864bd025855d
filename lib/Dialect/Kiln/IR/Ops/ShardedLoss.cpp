//===- ShardedLoss.cpp - Losses of classes that ranks divide ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// With tensor parallelism, each rank has the logits of some of the classes. For
// a row, the logarithm of the sum of exponentials over all classes is computed
// from the corresponding logarithms for the classes of each rank. A rank
// therefore sends only two numbers per row: its logarithm, and its logit of the
// target, or 0 if the target is a class of another rank.
//
//===----------------------------------------------------------------------===//

#include "ShardedLoss.h"

#include "OpChecks.h"
#include "ReferenceRules.h"
#include "RowSpaces.h"
#include "kiln/Dialect/Kiln/IR/RankGroup.h"
#include "kiln/Support/Mesh.h"

#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::reference;

using NodeId = row::NodeId;
using Kind = row::Kind;

/// The logit of padding columns. It is so low that exp(kPaddingLogit - x) is 0
/// for the logit x of any class. It is not -infinity, because the difference of
/// two infinities is NaN.
static constexpr double kPaddingLogit = -1e30;

/// Checks the operands and attributes that shard_softmax and
/// shard_cross_entropy have in common.
template <typename Op> static LogicalResult checkShardLoss(Op op) {
  if (failed(checkTargets(op, op.getLogits(), op.getTargets())))
    return failure();
  int64_t columns = op.getLogits().getType().getDimSize(1);
  int64_t classes = op.getClasses();
  if (classes < columns || classes > INT32_MAX)
    return op.emitOpError("classes is ")
           << classes << ", expected at least " << columns
           << ", the number of columns of the logits, and at most "
           << INT32_MAX;
  return success();
}

namespace {

/// The nodes that the row programs of shard_softmax and shard_cross_entropy
/// have in common.
struct ShardNodes {
  NodeId x, target;
  ShardRow row;    ///< Position of the target among this rank's classes.
  NodeId isPadded; ///< True for the columns of padding.

  template <typename Op> ShardNodes(RowBuilder &rows, Op op) {
    x = rows.full(op.getLogits());
    target = rows.perRow(op.getTargets());
    NodeId rank = rows.scalar(op.getRank());
    valid = hasSpace(rows, rowsOfLast(op.getLogits())) &&
            areValid({x, target, rank});
    if (!valid)
      return;
    row = shardRow(rows, target, rank, rows.getCols());
    NodeId first =
        rows.mul(rank, rows.constantLike(double(rows.getCols()), rank));
    NodeId last = rows.constantLike(double(op.getClasses() - 1), rank);
    isPadded = rows.less(last, rows.add(rows.columnIndex(), first));
  }
  bool valid;
};

} // namespace

//===----------------------------------------------------------------------===//
// shard_softmax
//===----------------------------------------------------------------------===//

LogicalResult ShardSoftmaxOp::verify() {
  if (failed(checkShardLoss(*this)))
    return failure();
  return checkPerRow(*this,
                     {{"log_sum", getLogSum()}, {"at_target", getAtTarget()}},
                     getLogits());
}

RowSpace ShardSoftmaxOp::getRowSpace() { return rowsOfLast(getLogits()); }

LogicalResult ShardSoftmaxOp::buildRows(RowBuilder &rows) {
  ShardNodes s(rows, *this);
  if (!s.valid)
    return failure();
  NodeId padding = rows.constantLike(kPaddingLogit, s.x);
  NodeId x = rows.select(s.isPadded, padding, s.x);
  NodeId max = rows.reduceMax(x);
  NodeId sum = rows.reduceSum(rows.unary(Kind::Exp, rows.sub(x, max)));
  rows.set(getLogSum(), rows.add(max, rows.unary(Kind::Log, sum)));
  NodeId index =
      rows.select(s.row.isMine, s.row.index, rows.constantLike(0, s.target));
  NodeId atTarget = rows.rowElement(getLogits(), index);
  rows.set(getAtTarget(),
           rows.select(s.row.isMine, atTarget, rows.constantLike(0, atTarget)));
  return success();
}

int64_t ShardSoftmaxOp::getLongestSum() {
  return getColumnCount(getLogits().getType());
}

/// Computes the results of shard_softmax for one row of `columns` logits, where
/// the first column is class `first`.
static std::pair<double, double> softmaxOfRow(const double *logits,
                                              int64_t columns, int64_t target,
                                              int64_t first, int64_t classes) {
  double largest = kPaddingLogit, sum = 0;
  for (int64_t c = 0; c < columns; ++c)
    if (first + c < classes)
      largest = std::fmax(largest, logits[c]);
  for (int64_t c = 0; c < columns; ++c)
    if (first + c < classes)
      sum += std::exp(logits[c] - largest);
  bool isMine = target >= first && target < first + columns;
  return {sum > 0 ? largest + std::log(sum) : kPaddingLogit,
          isMine ? logits[target - first] : 0};
}

LogicalResult ShardSoftmaxOp::evaluate(Operands operands, Results results) {
  const HostTensor &logits = *operands[0], &targets = *operands[1];
  int64_t columns = logits.shape().back();
  int64_t first = operands[2]->integers[0] * columns;
  for (int64_t r = 0, e = targets.size(); r < e; ++r)
    std::tie(results[0].reals[r], results[1].reals[r]) =
        softmaxOfRow(rowOf(logits, r, columns), columns, targets.integers[r],
                     first, getClasses());
  return success();
}

//===----------------------------------------------------------------------===//
// shard_cross_entropy
//===----------------------------------------------------------------------===//

LogicalResult ShardCrossEntropyOp::verify() {
  if (failed(checkShardLoss(*this)) ||
      failed(checkPerRow(*this,
                         {{"row_loss", getRowLoss()},
                          {"log_sum", getLogSum()},
                          {"at_target", getAtTarget()}},
                         getLogits())))
    return failure();
  if (!getDlogits())
    return success();
  return checkLike(*this, {{"dlogits", getDlogits()}}, getLogits());
}

Rounding ShardCrossEntropyOp::getRounding() { return Rounding::Inside; }

RowSpace ShardCrossEntropyOp::getRowSpace() { return rowsOfLast(getLogits()); }

LogicalResult ShardCrossEntropyOp::buildRows(RowBuilder &rows) {
  ShardNodes s(rows, *this);
  NodeId logSum = rows.perRow(getLogSum());
  NodeId atTarget = rows.perRow(getAtTarget());
  if (!s.valid || !areValid({logSum, atTarget}))
    return failure();
  NodeId isIgnored =
      rows.equal(s.target, rows.constantLike(kIgnoreIndex, s.target));
  NodeId zero = rows.constantLike(0, s.x);
  rows.set(getRowLoss(),
           rows.select(isIgnored, zero, rows.sub(logSum, atTarget)));
  if (!getDlogits())
    return success();
  NodeId scale = scalarLike(rows, getScale(), s.x);
  if (scale < 0)
    return failure();
  NodeId p = rows.unary(Kind::Exp, rows.sub(s.x, logSum));
  NodeId isTarget = rows.equal(rows.columnIndex(), s.row.index);
  NodeId difference =
      rows.select(isTarget, rows.sub(p, rows.constantLike(1, p)), p);
  NodeId gradient = rows.select(s.isPadded, zero, rows.mul(scale, difference));
  rows.set(getDlogits(), rows.select(isIgnored, zero, gradient));
  return success();
}

/// Stores in `gradient` the gradient of one row of `columns` logits, where the
/// first column is class `first`.
static void gradientOfRow(const double *logits, int64_t columns, int64_t target,
                          int64_t first, int64_t classes, double logSum,
                          double scale, double *gradient) {
  for (int64_t c = 0; c < columns; ++c) {
    bool isZero = target == kIgnoreIndex || first + c >= classes;
    gradient[c] = isZero ? 0
                         : scale * (std::exp(logits[c] - logSum) -
                                    (first + c == target ? 1.0 : 0.0));
  }
}

LogicalResult ShardCrossEntropyOp::evaluate(Operands operands,
                                            Results results) {
  const HostTensor &logits = *operands[0], &targets = *operands[1];
  const HostTensor &logSum = *operands[3], &atTarget = *operands[4];
  int64_t columns = logits.shape().back();
  int64_t first = operands[2]->integers[0] * columns;
  double scale = operands[5]->reals[0];
  for (int64_t r = 0, e = targets.size(); r < e; ++r) {
    int64_t target = targets.integers[r];
    results[0].reals[r] =
        target == kIgnoreIndex ? 0 : logSum.reals[r] - atTarget.reals[r];
    if (results.size() > 1)
      gradientOfRow(rowOf(logits, r, columns), columns, target, first,
                    getClasses(), logSum.reals[r], scale,
                    results[1].reals.data() + r * columns);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// linear_cross_entropy
//===----------------------------------------------------------------------===//

FailureOr<double> kiln::evaluateShardedLoss(Operation *op,
                                            const ShardedLossOperands &o,
                                            HostTensor *dhidden,
                                            HostTensor *dweight,
                                            double cotangent) {
  int64_t features = o.hidden.shape().back(), columns = o.weight.shape()[0];
  int64_t rows = o.targets.size(), first = o.rank * columns;
  std::vector<double> logits(size_t(rows * columns));
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t v = 0; v < columns; ++v)
      for (int64_t c = 0; c < features; ++c)
        logits[r * columns + v] +=
            o.hidden.reals[r * features + c] * o.weight.reals[v * features + c];
  // For each row, compute the logarithm of the sum of exponentials (`sum`) and
  // the logit of the target (`atTarget`) from the classes of this rank. Then
  // gather these numbers from all ranks (`all`).
  int64_t ranks =
      meshSizeOf(op->getParentOfType<ModuleOp>(), support::tensorAxis);
  Type f64 = Float64Type::get(op->getContext());
  auto part = RankedTensorType::get({1, rows}, f64);
  auto whole = RankedTensorType::get({ranks, rows}, f64);
  HostTensor sum(part), atTarget(part);
  SmallVector<HostTensor> all = {HostTensor(whole), HostTensor(whole)};
  for (int64_t r = 0; r < rows; ++r)
    std::tie(sum.reals[r], atTarget.reals[r]) =
        softmaxOfRow(logits.data() + r * columns, columns,
                     o.targets.integers[r], first, o.classes);
  const HostTensor *parts[] = {&sum, &atTarget};
  if (failed(evaluateCollective(op, Collective::AllGather, support::tensorAxis,
                                parts, all)))
    return failure();
  double total = 0;
  std::vector<double> gradient(static_cast<size_t>(columns));
  for (int64_t r = 0; r < rows; ++r) {
    double largest = kPaddingLogit, exponentials = 0, target = 0;
    for (int64_t rank = 0; rank < ranks; ++rank)
      largest = std::fmax(largest, all[0].reals[rank * rows + r]);
    for (int64_t rank = 0; rank < ranks; ++rank) {
      exponentials += std::exp(all[0].reals[rank * rows + r] - largest);
      target += all[1].reals[rank * rows + r];
    }
    double logSum = largest + std::log(exponentials);
    if (o.targets.integers[r] != kIgnoreIndex)
      total += logSum - target;
    if (!dhidden)
      continue;
    gradientOfRow(logits.data() + r * columns, columns, o.targets.integers[r],
                  first, o.classes, logSum, o.scale * cotangent,
                  gradient.data());
    for (int64_t v = 0; v < columns; ++v)
      for (int64_t c = 0; c < features; ++c) {
        dhidden->reals[r * features + c] +=
            gradient[v] * o.weight.reals[v * features + c];
        dweight->reals[v * features + c] +=
            gradient[v] * o.hidden.reals[r * features + c];
      }
  }
  return o.scale * total;
}
