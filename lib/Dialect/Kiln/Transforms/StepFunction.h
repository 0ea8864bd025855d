//===- StepFunction.h - Optimal approximation by step functions -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A derivative f' is approximated by a function q with few values, so that the
// backward pass needs only a few bits per element instead of the input x of f.
// The error is measured as
//
//   error(q) = integral of (f'(x) - q(x))^2 w(x) dx
//
// where w is the density of the standard normal distribution. Dynamic
// programming finds the least error over all step functions with borders on a
// fine grid: the best cover of the grid up to t by k steps ends with a step [s,
// t), preceded by the best cover up to s by k - 1 steps.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_STEPFUNCTION_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_STEPFUNCTION_H

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <vector>

namespace kiln {

/// A step function: q(x) = levels[number of borders below x].
struct StepFunction {
  std::vector<double> borders; ///< In ascending order; borders.size() =
                               ///< levels.size() - 1.
  std::vector<double> levels;
  double error = 0;

  double operator()(double x) const;
};

/// Fits step functions with borders on a grid of multiples of 3/512 between -6
/// and 6, which every floating-point type can represent. The normal
/// distribution has a probability of 2e-9 outside of the grid.
class StepFitter {
public:
  explicit StepFitter(llvm::function_ref<double(double)> f);

  /// Returns the function with `steps` steps that has the least error. Among
  /// functions with equal errors, prefers lower borders. `steps` must be at
  /// most 256.
  StepFunction fit(int32_t steps) const;

private:
  /// level() returns the best level over the grid cells [s, t), and cost()
  /// returns the error of this level.
  double level(int64_t s, int64_t t) const;
  double cost(int64_t s, int64_t t) const;
  StepFunction withBorders(const std::vector<int64_t> &cells) const;

  /// The integrals of w (`weight`), f w (`first`) and f^2 w (`second`) from the
  /// start of the grid to each grid point, where f is the function to be fitted
  /// and w is the density of the standard normal distribution.
  std::vector<double> weight, first, second;
};

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_STEPFUNCTION_H
