//===- Softmax.cpp - Softmax and cross-entropy losses -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Row programs compute softmax and the cross entropy of rows.
// --kiln-expand-loss expands the loss of a whole batch into the losses of rows.
// The reference of linear_cross_entropy keeps one row of logits at a time.
//
//===----------------------------------------------------------------------===//

#include "GradientRules.h"
#include "OpChecks.h"
#include "ReferenceRules.h"
#include "RowSpaces.h"
#include "SequenceRules.h"
#include "ShardedLoss.h"

#include "kiln/Support/Mesh.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

#include <cmath>

using namespace mlir;
using namespace kiln;
using namespace kiln::checks;
using namespace kiln::gradients;
using namespace kiln::reference;
using namespace kiln::sequences;

using NodeId = row::NodeId;
using Kind = row::Kind;

namespace {

/// Nodes that the row programs of softmax and cross entropy share.
struct Softmax {
  NodeId max, exp, sum, probability;
};

Softmax softmaxOf(RowBuilder &rows, NodeId x) {
  Softmax s;
  s.max = rows.reduceMax(x);
  s.exp = rows.unary(Kind::Exp, rows.sub(x, s.max));
  s.sum = rows.reduceSum(s.exp);
  s.probability = rows.mul(s.exp, rows.div(rows.constantLike(1, s.sum), s.sum));
  return s;
}

} // namespace

//===----------------------------------------------------------------------===//
// softmax
//===----------------------------------------------------------------------===//

LogicalResult SoftmaxOp::verify() {
  if (failed(checkMinRank(*this, "x", getX(), 1)))
    return failure();
  return checkLike(*this, {{"y", getY()}}, getX());
}

Rounding SoftmaxOp::getRounding() { return Rounding::Results; }

LogicalResult SoftmaxOp::buildGradient(OpBuilder &builder,
                                       ValueRange cotangents, Wanted,
                                       Gradients gradients) {
  gradients[0] = SoftmaxGradOp::create(builder, getLoc(), getX().getType(),
                                       getY(), cotangents[0]);
  return success();
}

void SoftmaxOp::inferSequences(Facts operands, int64_t, MutableFacts results) {
  setAll(results, inferRows(*this, operands, 1));
}

RowSpace SoftmaxOp::getRowSpace() { return rowsOfLast(getX()); }
LogicalResult SoftmaxOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX());
  if (!hasSpace(rows, getRowSpace()) || x < 0)
    return failure();
  rows.set(getY(), softmaxOf(rows, x).probability);
  return success();
}

int64_t SoftmaxOp::getLongestSum() { return getColumnCount(getX().getType()); }

LogicalResult SoftmaxOp::evaluate(Operands operands, Results results) {
  const HostTensor &x = *operands[0];
  Rows rows(x);
  for (int64_t r = 0; r < rows.count; ++r) {
    const double *in = rowOf(x, r, rows.length);
    double *out = results[0].reals.data() + r * rows.length;
    double largest = -HUGE_VAL, sum = 0;
    for (int64_t c = 0; c < rows.length; ++c)
      largest = std::fmax(largest, in[c]);
    for (int64_t c = 0; c < rows.length; ++c)
      sum += out[c] = std::exp(in[c] - largest);
    for (int64_t c = 0; c < rows.length; ++c)
      out[c] /= sum;
  }
  return success();
}

LogicalResult SoftmaxGradOp::verify() {
  if (failed(checkMinRank(*this, "y", getY(), 1)))
    return failure();
  return checkLike(*this, {{"dy", getDy()}, {"dx", getDx()}}, getY());
}

RowSpace SoftmaxGradOp::getRowSpace() { return rowsOfLast(getY()); }
LogicalResult SoftmaxGradOp::buildRows(RowBuilder &rows) {
  NodeId y = rows.full(getY()), dy = rows.full(getDy());
  if (!hasSpace(rows, getRowSpace()) || !areValid({y, dy}))
    return failure();
  NodeId along = rows.reduceSum(rows.mul(y, dy));
  rows.set(getDx(), rows.mul(y, rows.sub(dy, along)));
  return success();
}

int64_t SoftmaxGradOp::getLongestSum() {
  return getColumnCount(getDy().getType());
}

LogicalResult SoftmaxGradOp::evaluate(Operands operands, Results results) {
  const HostTensor &y = *operands[0], &dy = *operands[1];
  Rows rows(y);
  for (int64_t r = 0; r < rows.count; ++r) {
    const double *p = rowOf(y, r, rows.length);
    const double *g = rowOf(dy, r, rows.length);
    double product = 0;
    for (int64_t c = 0; c < rows.length; ++c)
      product += p[c] * g[c];
    for (int64_t c = 0; c < rows.length; ++c)
      results[0].reals[r * rows.length + c] = p[c] * (g[c] - product);
  }
  return success();
}

//===----------------------------------------------------------------------===//
// softmax_cross_entropy and scaled_total
//===----------------------------------------------------------------------===//

/// Fails if a target is neither a class nor kIgnoreIndex.
static LogicalResult checkClasses(Operation *op, const HostTensor &targets,
                                  int64_t classes) {
  for (auto [i, target] : llvm::enumerate(targets.integers))
    if (target != kIgnoreIndex && (target < 0 || target >= classes))
      return op->emitOpError("target ")
             << i << " is " << target
             << ", expected a class of at least 0 and below " << classes
             << ", or the ignore index " << kIgnoreIndex;
  return success();
}

/// Returns the cross entropy of one row of `classes` logits. If `gradient` is
/// not null, stores scale * (softmax(logits) - onehot(target)) in `gradient`.
static double crossEntropyOfRow(const double *logits, int64_t classes,
                                int64_t target, double scale,
                                double *gradient) {
  if (target == kIgnoreIndex) {
    if (gradient)
      std::fill_n(gradient, classes, 0.0);
    return 0;
  }
  double largest = -HUGE_VAL, sum = 0;
  for (int64_t c = 0; c < classes; ++c)
    largest = std::fmax(largest, logits[c]);
  for (int64_t c = 0; c < classes; ++c)
    sum += std::exp(logits[c] - largest);
  if (gradient)
    for (int64_t c = 0; c < classes; ++c)
      gradient[c] = scale * (std::exp(logits[c] - largest) / sum -
                             (c == target ? 1.0 : 0.0));
  return std::log(sum) - (logits[target] - largest);
}

LogicalResult SoftmaxCrossEntropyOp::verify() {
  if (failed(checkTargets(*this, getLogits(), getTargets())) ||
      failed(checkPerRow(*this, {{"row_loss", getRowLoss()}}, getLogits())))
    return failure();
  if (!getDlogits())
    return success();
  return checkLike(*this, {{"dlogits", getDlogits()}}, getLogits());
}

Rounding SoftmaxCrossEntropyOp::getRounding() { return Rounding::Results; }

RowSpace SoftmaxCrossEntropyOp::getRowSpace() {
  return rowsOfLast(getLogits());
}

LogicalResult SoftmaxCrossEntropyOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getLogits()), target = rows.perRow(getTargets());
  if (!hasSpace(rows, getRowSpace()) || !areValid({x, target}))
    return failure();
  NodeId zero = rows.constantLike(0, x), one = rows.constantLike(1, x);
  NodeId isIgnored =
      rows.equal(target, rows.constantLike(kIgnoreIndex, target));
  // The kernel reads the logit at `index` even if the row is ignored. Use index
  // 0 for an ignored row, because kIgnoreIndex is out of bounds.
  NodeId index = rows.select(isIgnored, rows.constantLike(0, target), target);
  NodeId atTarget = rows.rowElement(getLogits(), index);
  Softmax s = softmaxOf(rows, x);
  NodeId loss =
      rows.sub(rows.unary(Kind::Log, s.sum), rows.sub(atTarget, s.max));
  rows.set(getRowLoss(), rows.select(isIgnored, zero, loss));
  if (!getDlogits())
    return success();
  NodeId scale = scalarLike(rows, getScale(), x);
  if (scale < 0)
    return failure();
  NodeId isTarget = rows.equal(rows.columnIndex(), index);
  NodeId difference =
      rows.select(isTarget, rows.sub(s.probability, one), s.probability);
  rows.set(getDlogits(),
           rows.select(isIgnored, zero, rows.mul(scale, difference)));
  return success();
}

int64_t SoftmaxCrossEntropyOp::getLongestSum() {
  return getColumnCount(getLogits().getType());
}

LogicalResult SoftmaxCrossEntropyOp::evaluate(Operands operands,
                                              Results results) {
  const HostTensor &logits = *operands[0], &targets = *operands[1];
  double scale = operands[2]->reals[0];
  int64_t classes = logits.shape().back();
  if (failed(checkClasses(*this, targets, classes)))
    return failure();
  bool wantsGradient = results.size() == 2;
  for (int64_t r = 0, e = targets.size(); r < e; ++r)
    results[0].reals[r] = crossEntropyOfRow(
        logits.reals.data() + r * classes, classes, targets.integers[r], scale,
        wantsGradient ? results[1].reals.data() + r * classes : nullptr);
  return success();
}

/// Adds noise that models rounding errors to the two results that lose accuracy
/// if the probability of the target is close to one: the loss, which is then
/// the logarithm of a sum close to one, and the gradient of the logit of the
/// target, which is computed as the difference between the probability and one.
void SoftmaxCrossEntropyOp::addInnerNoise(Operands operands, Results results,
                                          double epsilon, NoiseSource noise) {
  int64_t columns = getColumnCount(tensorTypeOf(getLogits()));
  double scale = std::abs(operands[2]->reals.front());
  for (auto [row, target] : llvm::enumerate(operands[1]->integers)) {
    if (target < 0)
      continue;
    results[0].reals[row] += noise(epsilon);
    if (results.size() > 1)
      results[1].reals[row * columns + target] += noise(epsilon * scale);
  }
}

RowSpace ScaledTotalOp::getRowSpace() { return oneRow(getX()); }
LogicalResult ScaledTotalOp::buildRows(RowBuilder &rows) {
  NodeId x = rows.full(getX()), scale = rows.scalar(getScale());
  if (!hasSpace(rows, getRowSpace()) || !areValid({x, scale}))
    return failure();
  NodeId sum = rows.reduceSum(rows.cast(x, row::Type::F64));
  rows.set(getTotal(), rows.mul(scale, sum));
  return success();
}

int64_t ScaledTotalOp::getLongestSum() { return termsPerResult(*this); }

LogicalResult ScaledTotalOp::evaluate(Operands operands, Results results) {
  double sum = 0;
  for (double x : operands[0]->reals)
    sum += x;
  results[0].reals[0] = operands[1]->reals[0] * sum;
  return success();
}

//===----------------------------------------------------------------------===//
// cross_entropy
//===----------------------------------------------------------------------===//

/// Returns the SequenceFact of a loss. A loss is a sum over rows with one
/// target per row. It is therefore Total (a sum over the sequences) if the rows
/// and the targets consist of one part per sequence.
static SequenceFact inferLoss(Operation *op, Facts rows, Value targets,
                              const SequenceFact &target, Facts shared,
                              const SequenceFact &scale) {
  SmallVector<SequenceFact> all(rows);
  llvm::append_range(all, shared);
  all.append({target, scale});
  if (findOpaque(all) || !allShared(shared) || !scale.isShared())
    return explain(op, all);
  if (rows.front().degree != 0 ||
      llvm::any_of(shared, [](auto &fact) { return fact.degree != 0; }))
    return SequenceFact::opaque(op, kNotHomogeneous);
  if (allShared(all))
    return SequenceFact::shared(scale.degree);
  return rows.front().splitsAlong(0) && sequenceMajorDim(targets, target)
             ? SequenceFact::total(scale.degree)
             : explain(op, all);
}

/// Returns scale times the summed cross entropy of all rows. If `dlogits` is
/// not null, stores the gradient of the logits for `cotangent` in `dlogits`.
static double crossEntropy(const HostTensor &logits, const HostTensor &targets,
                           double scale, HostTensor *dlogits,
                           double cotangent = 1) {
  int64_t classes = logits.shape().back();
  double sum = 0;
  for (int64_t r = 0, e = targets.size(); r < e; ++r)
    sum += crossEntropyOfRow(logits.reals.data() + r * classes, classes,
                             targets.integers[r], scale * cotangent,
                             dlogits ? dlogits->reals.data() + r * classes
                                     : nullptr);
  return scale * sum;
}

LogicalResult CrossEntropyOp::verify() {
  return checkTargets(*this, getLogits(), getTargets()); // Constraint C1.
}

/// Adds to `chain`, in program order, the ops that compute `value` from
/// constants and inputs of the program. Sets `isScaled` if one of these inputs
/// is the scale of the gradients. Returns false if `value` cannot be computed
/// in this way by ops on scalars.
static bool findChain(Value value, llvm::SetVector<Operation *> &chain,
                      bool &isScaled) {
  Operation *op = value.getDefiningOp();
  if (op && chain.contains(op))
    return true;
  if (!op) {
    auto argument = cast<BlockArgument>(value);
    auto program = dyn_cast<ProgramOp>(argument.getOwner()->getParentOp());
    InputAttr fact =
        program ? program.getInputFact(argument.getArgNumber()) : InputAttr();
    isScaled |= fact && fact.getRole() == InputRole::GradientScale;
    return true;
  }
  if (tensorTypeOf(value).getRank() > 0 || !isPure(op) || isa<ReadOp>(op))
    return false;
  for (Value operand : op->getOperands())
    if (!findChain(operand, chain, isScaled))
      return false;
  chain.insert(op);
  return true;
}

/// If `cotangent` is computed from the scale of the gradients and other inputs
/// of the program, moves the ops that compute it before `loss`, and returns
/// `cotangent`. Otherwise returns null. The op that replaces `loss` can then
/// read `cotangent` and multiply the gradient by it before the gradient is
/// rounded. Ops of the forward pass that are read before `loss` stay where they
/// are.
static Value cotangentInput(Value cotangent, Operation *loss) {
  llvm::SetVector<Operation *> chain;
  bool isScaled = false;
  if (!findChain(cotangent, chain, isScaled) || !isScaled)
    return Value();
  Operation *position = loss;
  for (Operation *op : llvm::reverse(chain)) {
    if (llvm::any_of(op->getUsers(), [&](Operation *user) {
          return user->isBeforeInBlock(position);
        }))
      continue;
    op->moveBefore(position);
    position = op;
  }
  return cotangent;
}

/// Replaces the op by one that computes both the loss and its gradient. If
/// cotangentInput() returns the cotangent, the new op reads it. Otherwise the
/// new op computes the gradient for a cotangent of 1, and the gradient is
/// multiplied by the cotangent afterwards.
LogicalResult CrossEntropyOp::buildGradient(OpBuilder &builder,
                                            ValueRange cotangents,
                                            Wanted wanted,
                                            Gradients gradients) {
  if (wanted[2])
    return emitOpError("has no derivative with respect to its operand 'scale', "
                       "which depends on a trainable state");
  CrossEntropyGradOp both;
  Value input = cotangentInput(cotangents[0], *this);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(*this);
    both = CrossEntropyGradOp::create(
        builder, getLoc(),
        TypeRange{getLoss().getType(), getLogits().getType()}, getLogits(),
        getTargets(), getScale(), input);
  }
  getLoss().replaceAllUsesWith(both.getLoss());
  gradients[0] = input ? both.getDlogits()
                       : Rule(builder, *this)
                             .timesCotangent(both.getDlogits(), cotangents[0]);
  return success();
}

void CrossEntropyOp::inferSequences(Facts operands, int64_t,
                                    MutableFacts results) {
  results[0] =
      inferLoss(*this, operands[0], getTargets(), operands[1], {}, operands[2]);
}

LogicalResult CrossEntropyOp::evaluate(Operands operands, Results results) {
  if (failed(checkClasses(*this, *operands[1], operands[0]->shape().back())))
    return failure();
  results[0].reals[0] =
      crossEntropy(*operands[0], *operands[1], operands[2]->reals[0], nullptr);
  return success();
}

LogicalResult CrossEntropyGradOp::verify() {
  if (failed(checkTargets(*this, getLogits(), getTargets())))
    return failure();
  return checkLike(*this, {{"dlogits", getDlogits()}}, getLogits());
}

LogicalResult CrossEntropyGradOp::evaluate(Operands operands, Results results) {
  if (failed(checkClasses(*this, *operands[1], operands[0]->shape().back())))
    return failure();
  results[0].reals[0] =
      crossEntropy(*operands[0], *operands[1], operands[2]->reals[0],
                   &results[1], getCotangent() ? operands[3]->reals[0] : 1);
  return success();
}

//===----------------------------------------------------------------------===//
// linear_cross_entropy
//===----------------------------------------------------------------------===//

/// Returns the loss of a linear head, with one row of logits in memory at a
/// time. `dhidden` and `dweight`, which accumulate the gradients for
/// `cotangent`, are both null or both not null.
static double linearCrossEntropy(const HostTensor &hidden,
                                 const HostTensor &weight,
                                 const HostTensor &targets, double scale,
                                 HostTensor *dhidden, HostTensor *dweight,
                                 double cotangent = 1) {
  int64_t features = hidden.shape().back();
  int64_t classes = weight.shape().front();
  std::vector<double> logits(classes), gradient(classes);
  double sum = 0;
  for (int64_t r = 0, e = targets.size(); r < e; ++r) {
    const double *h = hidden.reals.data() + r * features;
    for (int64_t v = 0; v < classes; ++v) {
      logits[v] = 0;
      for (int64_t c = 0; c < features; ++c)
        logits[v] += h[c] * weight.reals[v * features + c];
    }
    sum += crossEntropyOfRow(logits.data(), classes, targets.integers[r],
                             scale * cotangent,
                             dhidden ? gradient.data() : nullptr);
    if (!dhidden)
      continue;
    for (int64_t v = 0; v < classes; ++v)
      for (int64_t c = 0; c < features; ++c) {
        dhidden->reals[r * features + c] +=
            gradient[v] * weight.reals[v * features + c];
        dweight->reals[v * features + c] += gradient[v] * h[c];
      }
  }
  return scale * sum;
}

/// Returns the number of classes of a linear_cross_entropy.
template <typename Op> static int64_t classesOf(Op op) {
  return op.getClasses() ? int64_t(*op.getClasses())
                         : tensorTypeOf(op.getWeight()).getDimSize(0);
}

/// Checks that 'rank' and 'classes' are both present or both absent. Also
/// checks that the weight of one rank has at most as many rows as there are
/// classes, and the weights of all ranks together at least as many.
template <typename Op> static LogicalResult checkRankOfLoss(Op op) {
  int64_t rows = tensorTypeOf(op.getWeight()).getDimSize(0);
  if (bool(op.getRank()) != op.getClasses().has_value())
    return op.emitOpError("has only one of 'rank' and 'classes', expected both "
                          "or none of them");
  int64_t most = INT32_MAX;
  if (auto module = op->template getParentOfType<ModuleOp>();
      module && op.getRank()) {
    int64_t ranks = meshSizeOf(module, support::tensorAxis);
    if (ranks < 1)
      return op.emitOpError(
          "has 'rank', but the module's attribute 'kiln.mesh' "
          "does not have the axis 'tp'");
    most = ranks < most / rows ? ranks * rows : most;
  }
  if (classesOf(op) >= rows && classesOf(op) <= most)
    return success();
  return op.emitOpError("classes is ")
         << classesOf(op) << ", expected at least " << rows
         << ", the number of rows of 'weight', and at most " << most;
}

LogicalResult LinearCrossEntropyOp::verify() {
  if (failed(
          checkTargets(*this, getHidden(), getTargets())) || // Constraint C1.
      failed(checkChunkRows(*this, getRows())))
    return failure();
  if (failed(checkRank(*this, "weight", getWeight(), 2)))
    return failure();
  if (getWeight().getType().getDimSize(1) !=
      getHidden().getType().getDimSize(1))
    return emitOpError("'weight' has ")
           << getWeight().getType().getDimSize(1) << " columns, expected "
           << getHidden().getType().getDimSize(1)
           << ", the number of columns of 'hidden'";
  if (failed(checkRankOfLoss(*this))) // Constraint C2.
    return failure();
  return checkShape(*this, "weight", getWeight(),
                    getWeight().getType().getShape(), getHidden());
}

Precision LinearCrossEntropyOp::getPrecision() { return Precision::Low; }

LogicalResult LinearCrossEntropyOp::buildGradient(OpBuilder &builder,
                                                  ValueRange cotangents,
                                                  Wanted wanted,
                                                  Gradients gradients) {
  if (wanted[3])
    return emitOpError("has no derivative with respect to its operand 'scale', "
                       "which depends on a trainable state");
  LinearCrossEntropyGradOp both;
  Value input = cotangentInput(cotangents[0], *this);
  {
    OpBuilder::InsertionGuard guard(builder);
    builder.setInsertionPoint(*this);
    both = LinearCrossEntropyGradOp::create(
        builder, getLoc(),
        TypeRange{getLoss().getType(), getHidden().getType(),
                  getWeight().getType()},
        getHidden(), getWeight(), getTargets(), getScale(), input, getRank(),
        getRowsAttr(), getClassesAttr());
  }
  getLoss().replaceAllUsesWith(both.getLoss());
  Rule r(builder, *this);
  Value results[] = {both.getDhidden(), both.getDweight()};
  for (auto [i, gradient] : llvm::enumerate(results))
    if (wanted[i])
      gradients[i] =
          input ? gradient : r.timesCotangent(gradient, cotangents[0]);
  return success();
}

void LinearCrossEntropyOp::inferSequences(Facts operands, int64_t,
                                          MutableFacts results) {
  results[0] = inferLoss(*this, operands[0], getTargets(), operands[2],
                         operands[1], operands[3]);
}

LogicalResult LinearCrossEntropyOp::evaluate(Operands operands,
                                             Results results) {
  if (failed(checkClasses(*this, *operands[2], classesOf(*this))))
    return failure();
  if (getRank()) {
    auto loss = evaluateShardedLoss(
        *this,
        {*operands[0], *operands[1], *operands[2], operands[3]->reals[0],
         operands[4]->integers[0], classesOf(*this)},
        nullptr, nullptr);
    if (failed(loss))
      return failure();
    results[0].reals[0] = *loss;
    return success();
  }
  results[0].reals[0] =
      linearCrossEntropy(*operands[0], *operands[1], *operands[2],
                         operands[3]->reals[0], nullptr, nullptr);
  return success();
}

LogicalResult LinearCrossEntropyGradOp::verify() {
  if (failed(checkTargets(*this, getHidden(), getTargets())) ||
      failed(checkChunkRows(*this, getRows())) ||
      failed(checkRank(*this, "weight", getWeight(), 2)) ||
      failed(checkShape(*this, "weight", getWeight(),
                        {getWeight().getType().getDimSize(0),
                         getHidden().getType().getDimSize(1)},
                        getHidden())) ||
      failed(checkLike(*this, {{"dhidden", getDhidden()}}, getHidden())) ||
      failed(checkRankOfLoss(*this)))
    return failure();
  return checkWide(*this, "dweight", getDweight(),
                   getWeight().getType().getShape(), getWeight());
}

unsigned LinearCrossEntropyGradOp::getWideResult() { return 2; }

LogicalResult LinearCrossEntropyGradOp::evaluate(Operands operands,
                                                 Results results) {
  if (failed(checkClasses(*this, *operands[2], classesOf(*this))))
    return failure();
  double cotangent = getCotangent() ? operands[4]->reals[0] : 1;
  if (getRank()) {
    auto loss = evaluateShardedLoss(
        *this,
        {*operands[0], *operands[1], *operands[2], operands[3]->reals[0],
         operands.back()->integers[0], classesOf(*this)},
        &results[1], &results[2], cotangent);
    if (failed(loss))
      return failure();
    results[0].reals[0] = *loss;
    return success();
  }
  results[0].reals[0] = linearCrossEntropy(*operands[0], *operands[1],
                                           *operands[2], operands[3]->reals[0],
                                           &results[1], &results[2], cotangent);
  return success();
}
