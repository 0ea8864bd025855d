//===- GradientCases.h - Cases of the gradient checks -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shapes, attributes and values at which the derivative of every differentiable
// op is compared with finite differences. The values avoid points without a
// derivative, such as relu at zero and ties of a maximum.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_UNIT_DIALECT_KILN_GRADIENTCASES_H
#define KILN_UNIT_DIALECT_KILN_GRADIENTCASES_H

#include <map>
#include <optional>
#include <string>
#include <vector>

namespace kiln::test {

/// The elements of an operand: either given, or random in [low, high) with an
/// absolute value of at least `gap`.
struct Values {
  double low = -1.5, high = 1.5, gap = 0;
  std::vector<double> given;

  static Values range(double low, double high) { return {low, high, 0, {}}; }
  static Values awayFromZero(double gap) { return {-1.5, 1.5, gap, {}}; }
  static Values of(std::vector<double> given) {
    return {0, 0, 0, std::move(given)};
  }
};

struct GradientCase {
  std::string op, properties;
  std::vector<std::string> operands, results; ///< Types such as "2x3xf32".
  std::map<unsigned, Values> values;
  /// The indices of the operands with respect to which the results are
  /// differentiated. The default is all floating-point operands.
  std::optional<std::vector<unsigned>> by;
};

std::vector<GradientCase> elementwiseGradientCases();
std::vector<GradientCase> rowGradientCases();
std::vector<GradientCase> matrixGradientCases();
std::vector<GradientCase> shapeGradientCases();

/// Returns the cases of all groups.
std::vector<GradientCase> gradientCases();

} // namespace kiln::test

#endif // KILN_UNIT_DIALECT_KILN_GRADIENTCASES_H
