//===- RoundingNoise.cpp - How far rounding moves results -----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The result of an op is moved once, as it is rounded once. What an op rounds
// inside, in sums above all, cannot be seen from outside; moving the operands
// of such an op, by another amount for each, has the same effect: their terms
// move independently. Operations on single elements have no inside, so that the
// difference of two exact operands must be exact, however small it is.
//
//===----------------------------------------------------------------------===//

#include "RoundingNoise.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace kiln;

double kiln::epsilonOf(Type element) {
  return infoOf(elementTypeOf(element)).spacingAtOne;
}

/// What an op rounds.
enum class Rounding { Nothing, Results, Inside };

static bool narrows(Value from, Value to) {
  // The two types of 16 bits have numbers that the other one has not.
  return to.getType() != from.getType() &&
         elementBytes(to.getType()) <= elementBytes(from.getType());
}

static Rounding roundingOf(Operation &op) {
  return TypeSwitch<Operation *, Rounding>(&op)
      .Case<NegOp, ReluOp, ReluGradOp, BroadcastOp, ReshapeOp, TransposeOp,
            SliceOp, ConcatOp, PadOp, SelectRowOp, ConstantOp>(
          [](Operation *) { return Rounding::Nothing; })
      .Case([](EmbeddingOp op) {
        return narrows(op.getTable(), op.getY()) ? Rounding::Results
                                                 : Rounding::Nothing;
      })
      .Case([](ReduceOp op) {
        return op.getKind() == Reduction::Max ? Rounding::Nothing
                                              : Rounding::Inside;
      })
      .Case([](CastOp op) {
        return narrows(op.getX(), op.getY()) ? Rounding::Results
                                             : Rounding::Nothing;
      })
      .Case<AddOp, SubOp, MulOp, DivOp, ScaleOp, SqrtOp, RsqrtOp, ExpOp, LogOp,
            TanhOp, SigmoidOp, SiluOp, GeluOp, SwigluOp, DropoutOp, NormalizeOp,
            AffineOp, RmsNormOp, SoftmaxOp, SoftmaxCrossEntropyOp>(
          [](Operation *) { return Rounding::Results; })
      .Default([](Operation *) { return Rounding::Inside; });
}

/// The coarsest rounding of an op: that of its results.
static double coarsestEpsilon(Operation &op) {
  double epsilon = 0;
  for (Type type : op.getResultTypes())
    epsilon = std::max(epsilon, epsilonOf(getElementTypeOrSelf(type)));
  return epsilon;
}

/// Whether an operand of an op that rounds inside is only subtracted there,
/// before anything was rounded.
static bool entersExactly(OpOperand &operand) {
  Value value = operand.get();
  if (auto norm = dyn_cast<LayerNormOp>(operand.getOwner()))
    return value == norm.getX();
  if (auto norm = dyn_cast<LayerNormGradOp>(operand.getOwner()))
    return value == norm.getX() || value == norm.getMean();
  return false;
}

double RoundingNoise::upTo(double bound) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return bound * (static_cast<double>(state >> 11) * 0x1p-52 - 1);
}

void RoundingNoise::move(HostTensor &tensor, double epsilon) {
  for (double &element : tensor.reals)
    element *= 1 + upTo(epsilon);
}

/// y = (x - mean) * rstd * gamma + beta.
void RoundingNoise::moveMean(const HostTensor &x, const HostTensor &gamma,
                             MutableArrayRef<HostTensor> results,
                             double epsilon) {
  std::vector<double> &y = results[0].reals;
  int64_t columns = gamma.size(), rows = x.size() / columns;
  for (int64_t row = 0; row < rows; ++row) {
    double terms = 0;
    for (int64_t column = 0; column < columns; ++column)
      terms += std::abs(x.reals[row * columns + column]);
    double shift = upTo(epsilon * terms / columns);
    results[1].reals[row] += shift;
    for (int64_t column = 0; column < columns; ++column)
      y[row * columns + column] -=
          shift * results[2].reals[row] * gamma.reals[column];
  }
}

void RoundingNoise::moveTerms(Operation &op,
                              ArrayRef<const HostTensor *> operands,
                              MutableArrayRef<HostTensor> results) {
  double epsilon = coarsestEpsilon(op);
  if (isa<LayerNormOp>(op))
    moveMean(*operands[0], *operands[1], results, epsilon);
  if (isa<AttentionOp>(op))
    for (double &lse : results[1].reals)
      lse += upTo(epsilon);
  auto loss = dyn_cast<SoftmaxCrossEntropyOp>(op);
  if (!loss)
    return;
  int64_t columns = getColumnCount(tensorTypeOf(loss.getLogits()));
  double scale = std::abs(operands[2]->reals.front());
  for (auto [row, target] : llvm::enumerate(operands[1]->integers)) {
    if (target < 0)
      continue;
    results[0].reals[row] += upTo(epsilon);
    if (results.size() > 1)
      results[1].reals[row * columns + target] += upTo(epsilon * scale);
  }
}

LogicalResult RoundingNoise::evaluateOp(Operation &op) {
  Rounding rounding = roundingOf(op);
  double epsilon = coarsestEpsilon(op);
  SmallVector<TensorHandle> operands;
  for (OpOperand &operand : op.getOpOperands()) {
    operands.push_back(values.at(operand.get()));
    if (rounding != Rounding::Inside || entersExactly(operand))
      continue;
    HostTensor moved = *operands.back();
    move(moved, epsilon);
    operands.back() = std::make_shared<const HostTensor>(std::move(moved));
  }
  auto pointers = llvm::map_to_vector(
      operands, [](const TensorHandle &tensor) { return tensor.get(); });
  auto results = llvm::map_to_vector(op.getResultTypes(), [](Type type) {
    auto tensor = cast<RankedTensorType>(type);
    return HostTensor(isa<FloatType>(tensor.getElementType())
                          ? tensor.clone(Float64Type::get(type.getContext()))
                          : tensor);
  });
  if (failed(cast<ReferenceOpInterface>(op).evaluate(pointers, results)))
    return failure();
  moveTerms(op, pointers, results);
  for (auto [value, result] : llvm::zip_equal(op.getResults(), results)) {
    if (rounding != Rounding::Nothing)
      move(result, epsilonOf(getElementTypeOrSelf(value)));
    values[value] = std::make_shared<const HostTensor>(std::move(result));
  }
  return success();
}

FailureOr<SmallVector<TensorHandle>>
RoundingNoise::evaluate(const ScheduledCommand &command,
                        ArrayRef<TensorHandle> operands) {
  values.clear();
  for (auto [value, tensor] :
       llvm::zip_equal(command.body->getArguments(), operands))
    values[value] = tensor;
  for (Operation &op : command.body->without_terminator())
    if (failed(evaluateOp(op)))
      return failure();
  return llvm::map_to_vector(command.body->getTerminator()->getOperands(),
                             [&](Value value) { return values.at(value); });
}
