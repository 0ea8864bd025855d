//===- OpComparison.cpp - Error bounds for results of commands --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "OpComparison.h"

using namespace mlir;
using namespace kiln;

/// Number of randomly perturbed evaluations that measure the effect of
/// rounding. The largest measured effect is used. A single evaluation could
/// underestimate the effect: if two terms cancel, it may by chance perturb them
/// by nearly the same amount.
static constexpr int kNoiseSamples = 16;

/// Returns the length of the longest sum that an op computes.
static int64_t longestSum(Operation &op) {
  if (auto gemm = dyn_cast<GemmOpInterface>(op))
    return gemm.getK();
  auto reference = dyn_cast<ReferenceOpInterface>(op);
  return reference ? reference.getLongestSum() : 1;
}

/// Returns the squared distance of two elements. Equal infinities have the
/// distance 0, and so have two NaNs.
static double squareDistance(double x, double y) {
  if (x == y || (std::isnan(x) && std::isnan(y)))
    return 0;
  return (x - y) * (x - y);
}

static double distance(const HostTensor &a, const HostTensor &b) {
  double sum = 0;
  for (auto [x, y] : llvm::zip_equal(a.reals, b.reals))
    sum += squareDistance(x, y);
  for (auto [x, y] : llvm::zip_equal(a.integers, b.integers))
    sum += squareDistance(static_cast<double>(x), static_cast<double>(y));
  return std::sqrt(sum);
}

/// Returns the norm of the finite elements. Infinities are not counted, because
/// a correct result has the same infinities as the exact one and needs no
/// tolerance for them.
static double norm(ArrayRef<double> x) {
  double sum = 0;
  for (double element : x)
    if (std::isfinite(element))
      sum += element * element;
  return std::sqrt(sum);
}

static SmallVector<TensorHandle> handlesFor(const Interpreter &interpreter,
                                            ArrayRef<HostTensor> tensors) {
  SmallVector<TensorHandle> handles;
  for (const HostTensor &tensor : tensors) {
    HostTensor copy = tensor;
    copy.type = interpreter.evaluationType(tensor.type);
    handles.push_back(std::make_shared<const HostTensor>(std::move(copy)));
  }
  return handles;
}

Deviation kiln::compareTensors(const HostTensor &expected,
                               const HostTensor &got) {
  Deviation deviation;
  double largest = -1;
  auto see = [&](size_t i, double x, double y) {
    double square = squareDistance(x, y);
    deviation.difference += square;
    if (square <= largest)
      return;
    largest = std::isnan(square) ? HUGE_VAL : square;
    deviation.element = i;
    deviation.expected = x;
    deviation.got = y;
  };
  for (auto [i, x, y] : llvm::enumerate(expected.reals, got.reals))
    see(i, x, y);
  for (auto [i, x, y] : llvm::enumerate(expected.integers, got.integers))
    see(i, static_cast<double>(x), static_cast<double>(y));
  deviation.difference = std::sqrt(deviation.difference);
  return deviation;
}

FailureOr<SmallVector<double>>
OpComparison::amplification(const ScheduledCommand &command,
                            ArrayRef<HostTensor> operands,
                            ArrayRef<TensorHandle> truth) {
  SmallVector<double> bounds(truth.size(), 0);
  auto widen = [&](ArrayRef<TensorHandle> results) {
    for (auto [bound, result, expected] :
         llvm::zip_equal(bounds, results, truth))
      bound = std::max(bound, distance(*result, *expected));
  };
  // An evaluation that rounds the result of every op is correct, too. Unlike
  // the perturbed evaluations, it covers the case that several elements are the
  // maximum only because rounding made them equal.
  auto rounded = evaluateCommand(own, command, handlesFor(own, operands));
  if (failed(rounded))
    return failure();
  widen(*rounded);
  SmallVector<TensorHandle> handles = handlesFor(exact, operands);
  for (int sample = 0; sample < kNoiseSamples; ++sample) {
    auto moved = noise.evaluate(command, handles);
    if (failed(moved))
      return failure();
    widen(*moved);
  }
  return bounds;
}

FailureOr<SmallVector<Deviation>>
OpComparison::compare(const ScheduledCommand &command,
                      ArrayRef<HostTensor> operands, ArrayRef<HostTensor> got) {
  auto truth = evaluateCommand(exact, command, handlesFor(exact, operands));
  if (failed(truth))
    return failure();
  int64_t length = 1;
  for (Operation &op : command.body->without_terminator())
    length = std::max(length, longestSum(op));
  double factor = 8 * std::sqrt(static_cast<double>(length));
  std::optional<SmallVector<double>> bounds;
  SmallVector<Deviation> deviations;
  for (auto [i, result] : llvm::enumerate(got)) {
    HostTensor expected = *(*truth)[i];
    expected.type = result.type;
    roundToType(expected);
    Deviation deviation = compareTensors(expected, result);
    if (result.isReal()) {
      Type element = result.type.getElementType();
      deviation.unit = epsilonOf(element) * norm(expected.reals) +
                       flushedBelow(elementTypeOf(element)) *
                           std::sqrt(static_cast<double>(result.size()));
      deviation.allowed = factor * deviation.unit;
      deviation.amplified = deviation.ratio() > 1;
    } else {
      // If the integers are codes of real numbers, rounding may change the code
      // of a number that is close to the border between two codes. Therefore
      // measure the effect of rounding if any integers differ.
      deviation.amplified = deviation.difference > 0;
    }
    if (deviation.amplified) {
      if (!bounds) {
        auto found = amplification(command, operands, *truth);
        if (failed(found))
          return failure();
        bounds = std::move(*found);
      }
      deviation.allowed += factor / 2 * (*bounds)[i];
    }
    deviations.push_back(deviation);
  }
  return deviations;
}
