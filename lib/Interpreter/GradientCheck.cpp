//===- GradientCheck.cpp - Gradients against finite differences -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/GradientCheck.h"

#include "mlir/IR/Verifier.h"
#include "llvm/Support/FormatVariadic.h"

#include <cmath>
#include <random>

using namespace mlir;
using namespace kiln;

using Tensors = SmallVector<HostTensor>;

static double dot(const HostTensor &a, const HostTensor &b) {
  double sum = 0;
  for (int64_t i = 0, e = a.size(); i < e; ++i)
    sum += a.reals[i] * b.reals[i];
  return sum;
}

static double dot(ArrayRef<HostTensor> a, ArrayRef<HostTensor> b) {
  double sum = 0;
  for (auto [x, y] : llvm::zip_equal(a, b))
    sum += dot(x, y);
  return sum;
}

namespace {

class Checker {
public:
  Checker(ProgramOp program, ProgramOp gradient, ArrayRef<HostTensor> inputs,
          ArrayRef<unsigned> arguments, const GradientCheckOptions &options)
      : interpreter(program->getParentOfType<ModuleOp>(), EvalType::F64),
        program(program), gradient(gradient), inputs(inputs),
        arguments(arguments), options(options), random(options.seed) {}

  FailureOr<GradientCheckResult> run();

private:
  /// Runs the program on its arguments plus `factor` times `direction`, and
  /// returns the results.
  FailureOr<Tensors> valuesAt(ArrayRef<HostTensor> direction, double factor);
  FailureOr<Tensors> gradientsFor(ArrayRef<HostTensor> cotangents);
  FailureOr<Tensors> evaluate(ProgramOp op, ArrayRef<HostTensor> values);

  LogicalResult checkDirection();
  LogicalResult checkJacobian();
  /// Returns the derivatives of all results with respect to one element of
  /// argument `which`, computed by finite differences.
  FailureOr<Tensors> differences(size_t which, int64_t element);

  void compare(double analytic, double numeric, const std::string &what);

  Tensors zeros(TypeRange types) const {
    return llvm::map_to_vector(types, [&](Type type) {
      return HostTensor(interpreter.evaluationType(type));
    });
  }
  Tensors zeroDirection() const {
    return llvm::map_to_vector(arguments, [&](unsigned index) {
      return HostTensor(inputs[index].type);
    });
  }
  void fillRandomly(Tensors &tensors) {
    std::normal_distribution<double> normal;
    for (HostTensor &tensor : tensors)
      for (double &element : tensor.reals)
        element = normal(random);
  }

  Interpreter interpreter;
  ProgramOp program, gradient;
  ArrayRef<HostTensor> inputs;
  ArrayRef<unsigned> arguments;
  const GradientCheckOptions &options;
  std::mt19937_64 random;
  GradientCheckResult result;
};

} // namespace

FailureOr<Tensors> Checker::evaluate(ProgramOp op,
                                     ArrayRef<HostTensor> values) {
  auto handles =
      llvm::map_to_vector(values, [](const HostTensor &tensor) -> TensorHandle {
        return std::make_shared<const HostTensor>(tensor);
      });
  auto outputs = interpreter.run(op, handles);
  if (failed(outputs))
    return failure();
  return llvm::map_to_vector(
      *outputs, [](const TensorHandle &output) { return *output; });
}

FailureOr<Tensors> Checker::valuesAt(ArrayRef<HostTensor> direction,
                                     double factor) {
  Tensors moved(inputs);
  for (auto [index, tensor] : llvm::zip_equal(arguments, direction))
    for (int64_t i = 0, e = tensor.size(); i < e; ++i)
      moved[index].reals[i] += factor * tensor.reals[i];
  return evaluate(program, moved);
}

FailureOr<Tensors> Checker::gradientsFor(ArrayRef<HostTensor> cotangents) {
  Tensors values(inputs);
  values.append(cotangents.begin(), cotangents.end());
  return evaluate(gradient, values);
}

void Checker::compare(double analytic, double numeric,
                      const std::string &what) {
  double tolerance = options.absolute + options.relative * std::abs(numeric);
  double ratio = std::abs(analytic - numeric) / tolerance;
  ++result.compared;
  // A comparison with NaN is false, so a NaN ratio counts as infinite below.
  if (ratio <= result.worst)
    return;
  result.worst = std::isnan(ratio) ? HUGE_VAL : ratio;
  result.where =
      llvm::formatv("{0}: the rule gives {1:e12}, differences {2:e12}", what,
                    analytic, numeric);
}

LogicalResult Checker::checkDirection() {
  Tensors direction = zeroDirection();
  Tensors cotangents = zeros(program.getResultTypes());
  fillRandomly(direction);
  fillRandomly(cotangents);
  // Scale the step of every element by the magnitude of the element.
  for (auto [index, tensor] : llvm::zip_equal(arguments, direction))
    for (auto [element, at] :
         llvm::zip_equal(tensor.reals, inputs[index].reals))
      element *= std::fmax(1, std::abs(at));
  double h = options.step;
  auto gradients = gradientsFor(cotangents);
  auto above = valuesAt(direction, h), below = valuesAt(direction, -h);
  if (failed(gradients) || failed(above) || failed(below))
    return failure();
  double numeric =
      (dot(*above, cotangents) - dot(*below, cotangents)) / (2 * h);
  compare(dot(*gradients, direction), numeric, "along a direction");
  return success();
}

FailureOr<Tensors> Checker::differences(size_t which, int64_t element) {
  Tensors direction = zeroDirection();
  direction[which].reals[element] = 1;
  double h = options.step *
             std::fmax(1, std::abs(inputs[arguments[which]].reals[element]));
  auto above = valuesAt(direction, h), below = valuesAt(direction, -h);
  if (failed(above) || failed(below))
    return failure();
  for (auto [up, down] : llvm::zip_equal(*above, *below))
    for (int64_t i = 0, e = up.size(); i < e; ++i)
      up.reals[i] = (up.reals[i] - down.reals[i]) / (2 * h);
  return above;
}

LogicalResult Checker::checkJacobian() {
  // columns[which][i]: the derivatives of all results with respect to element i
  // of the input `arguments[which]`.
  SmallVector<SmallVector<Tensors>> columns(arguments.size());
  for (auto [which, index] : llvm::enumerate(arguments))
    for (int64_t i = 0, e = inputs[index].size(); i < e; ++i) {
      auto column = differences(which, i);
      if (failed(column))
        return failure();
      columns[which].push_back(std::move(*column));
    }
  Tensors cotangents = zeros(program.getResultTypes());
  for (auto [output, cotangent] : llvm::enumerate(cotangents))
    for (int64_t j = 0, e = cotangent.size(); j < e; ++j) {
      cotangent.reals[j] = 1;
      auto rows = gradientsFor(cotangents);
      cotangent.reals[j] = 0;
      if (failed(rows))
        return failure();
      for (auto [which, row] : llvm::enumerate(*rows))
        for (int64_t i = 0, n = row.size(); i < n; ++i)
          compare(row.reals[i], columns[which][i][output].reals[j],
                  llvm::formatv("result {0}[{1}] by argument {2}[{3}]", output,
                                j, arguments[which], i));
    }
  return success();
}

FailureOr<GradientCheckResult> Checker::run() {
  for (int i = 0; i < options.directions; ++i)
    if (failed(checkDirection()))
      return failure();
  int64_t inputElements = 0, outputElements = 0;
  for (const HostTensor &tensor : zeroDirection())
    inputElements += tensor.size();
  for (const HostTensor &tensor : zeros(program.getResultTypes()))
    outputElements += tensor.size();
  if (inputElements <= options.jacobianElements &&
      outputElements <= options.jacobianElements)
    if (failed(checkJacobian()))
      return failure();
  return result;
}

FailureOr<GradientCheckResult>
kiln::checkGradients(ProgramOp program, ArrayRef<HostTensor> inputs,
                     const GradientCheckOptions &options) {
  SmallVector<unsigned> arguments;
  if (options.arguments)
    arguments = *options.arguments;
  else
    for (auto [i, input] : llvm::enumerate(inputs))
      if (input.isReal())
        arguments.push_back(i);
  auto gradient = buildGradientProgram(program, arguments);
  if (failed(gradient) || failed(verify(*gradient)))
    return failure();
  return Checker(program, *gradient, inputs, arguments, options).run();
}
