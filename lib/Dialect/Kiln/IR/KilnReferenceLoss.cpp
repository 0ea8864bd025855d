//===- KilnReferenceLoss.cpp - Reference of losses ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// ReferenceOpInterface of the cross entropies, with and without their head,
// and of the scalar reductions around them: all of one loss.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <cmath>

using namespace mlir;
using namespace kiln;

using Operands = ArrayRef<const HostTensor *>;
using Results = MutableArrayRef<HostTensor>;

/// Fails when a target is neither a class nor the ignored value.
static LogicalResult checkTargets(Operation *op, const HostTensor &targets,
                                  int64_t classes) {
  for (auto [i, target] : llvm::enumerate(targets.integers))
    if (target != kIgnoreIndex && (target < 0 || target >= classes))
      return op->emitOpError("target ")
             << i << " is " << target << ", expected a class below " << classes
             << " or " << kIgnoreIndex;
  return success();
}

/// The cross entropy of one row of `classes` logits. `gradient`, if given, gets
/// scale * (softmax(x) - onehot(target)).
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

/// scale * the sum over all rows; `dlogits` may be null.
static double crossEntropy(const HostTensor &logits, const HostTensor &targets,
                           double scale, HostTensor *dlogits) {
  int64_t classes = logits.shape().back();
  double sum = 0;
  for (int64_t r = 0, e = targets.size(); r < e; ++r)
    sum += crossEntropyOfRow(
        logits.reals.data() + r * classes, classes, targets.integers[r], scale,
        dlogits ? dlogits->reals.data() + r * classes : nullptr);
  return scale * sum;
}

LogicalResult SoftmaxCrossEntropyOp::evaluate(Operands operands,
                                              Results results) {
  const HostTensor &logits = *operands[0], &targets = *operands[1];
  double scale = operands[2]->reals[0];
  int64_t classes = logits.shape().back();
  if (failed(checkTargets(*this, targets, classes)))
    return failure();
  bool wantsGradient = results.size() == 2;
  for (int64_t r = 0, e = targets.size(); r < e; ++r)
    results[0].reals[r] = crossEntropyOfRow(
        logits.reals.data() + r * classes, classes, targets.integers[r], scale,
        wantsGradient ? results[1].reals.data() + r * classes : nullptr);
  return success();
}

LogicalResult ScaledTotalOp::evaluate(Operands operands, Results results) {
  double sum = 0;
  for (double x : operands[0]->reals)
    sum += x;
  results[0].reals[0] = operands[1]->reals[0] * sum;
  return success();
}

LogicalResult CrossEntropyOp::evaluate(Operands operands, Results results) {
  if (failed(checkTargets(*this, *operands[1], operands[0]->shape().back())))
    return failure();
  results[0].reals[0] =
      crossEntropy(*operands[0], *operands[1], operands[2]->reals[0], nullptr);
  return success();
}

LogicalResult CrossEntropyGradOp::evaluate(Operands operands, Results results) {
  if (failed(checkTargets(*this, *operands[1], operands[0]->shape().back())))
    return failure();
  results[0].reals[0] = crossEntropy(*operands[0], *operands[1],
                                     operands[2]->reals[0], &results[1]);
  return success();
}

/// Loss of a head; `dhidden` and `dweight` are both given or both null. One
/// row of logits exists at a time.
static double linearCrossEntropy(const HostTensor &hidden,
                                 const HostTensor &weight,
                                 const HostTensor &targets, double scale,
                                 HostTensor *dhidden, HostTensor *dweight) {
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
    sum += crossEntropyOfRow(logits.data(), classes, targets.integers[r], scale,
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

LogicalResult LinearCrossEntropyOp::evaluate(Operands operands,
                                             Results results) {
  if (failed(checkTargets(*this, *operands[2], operands[1]->shape().front())))
    return failure();
  results[0].reals[0] =
      linearCrossEntropy(*operands[0], *operands[1], *operands[2],
                         operands[3]->reals[0], nullptr, nullptr);
  return success();
}

LogicalResult LinearCrossEntropyGradOp::evaluate(Operands operands,
                                                 Results results) {
  if (failed(checkTargets(*this, *operands[2], operands[1]->shape().front())))
    return failure();
  results[0].reals[0] =
      linearCrossEntropy(*operands[0], *operands[1], *operands[2],
                         operands[3]->reals[0], &results[1], &results[2]);
  return success();
}
