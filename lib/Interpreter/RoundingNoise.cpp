//===- RoundingNoise.cpp - Effect of rounding on results --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The result of an op is rounded once, so it is perturbed once. The roundings
// inside an op, such as a sum, cannot be observed. They are modeled by
// perturbing each operand of the op by its own random amount, which perturbs
// the terms independently. The operands of elementwise ops are not perturbed,
// because these ops do not round intermediate values. Perturbing them would,
// for example, exaggerate the error of a small difference of two numbers.
//
//===----------------------------------------------------------------------===//

#include "RoundingNoise.h"

using namespace mlir;
using namespace kiln;

double kiln::epsilonOf(Type element) {
  return infoOf(elementTypeOf(element)).spacingAtOne;
}

/// Returns the largest epsilon of the result types of an op.
static double coarsestEpsilon(Operation &op) {
  double epsilon = 0;
  for (Type type : op.getResultTypes())
    epsilon = std::max(epsilon, epsilonOf(getElementTypeOrSelf(type)));
  return epsilon;
}

double RoundingNoise::upTo(double bound) {
  state = state * 6364136223846793005u + 1442695040888963407u;
  return bound * (static_cast<double>(state >> 11) * 0x1p-52 - 1);
}

void RoundingNoise::move(HostTensor &tensor, double epsilon) {
  for (double &element : tensor.reals)
    element *= 1 + upTo(epsilon);
}

LogicalResult RoundingNoise::evaluateOp(Operation &op) {
  auto reference = cast<ReferenceOpInterface>(op);
  Rounding rounding = reference.getRounding();
  double epsilon = coarsestEpsilon(op);
  SmallVector<TensorHandle> operands;
  for (OpOperand &operand : op.getOpOperands()) {
    operands.push_back(values.at(operand.get()));
    if (rounding != Rounding::Inside ||
        reference.entersExactly(operand.getOperandNumber()))
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
  if (failed(reference.evaluate(pointers, results)))
    return failure();
  reference.addInnerNoise(pointers, results, epsilon,
                          [&](double bound) { return upTo(bound); });
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
