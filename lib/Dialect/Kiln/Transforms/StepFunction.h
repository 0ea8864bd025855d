//===- StepFunction.h - The best step function for a function ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A derivative f' is replaced by a function q of few values, so that the
// backward pass needs a few bits per element instead of x. What is lost is
// measured as
//
//   error(q) = integral of (f'(x) - q(x))^2 w(x) dx
//
// with the density w of the standard normal distribution. The least error over
// all step functions with borders on a fine grid is found by dynamic
// programming: the best way to cover the grid up to t by k steps ends with a
// step [s, t), in front of which the rest is covered best by k - 1 steps.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_STEPFUNCTION_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_STEPFUNCTION_H

#include "llvm/ADT/STLFunctionalExtras.h"

#include <cstdint>
#include <vector>

namespace kiln {

/// q(x) = levels[number of borders below x].
struct StepFunction {
  std::vector<double> borders; ///< increasing; one less than levels
  std::vector<double> levels;
  double error = 0;

  double operator()(double x) const;
};

/// Borders lie on a grid of multiples of 3/512 between -6 and 6: numbers of any
/// floating point type. Outside there are 2e-9 of the normal distribution.
class StepFitter {
public:
  explicit StepFitter(llvm::function_ref<double(double)> f);

  /// The best function of 1 to 256 steps. Of equal ones, the one with the lower
  /// borders.
  StepFunction fit(int32_t steps) const;

private:
  /// Over cells [s, t) of the grid: the best level, and its error.
  double level(int64_t s, int64_t t) const;
  double cost(int64_t s, int64_t t) const;
  StepFunction withBorders(const std::vector<int64_t> &cells) const;

  /// Integrals of w, f w and f^2 w from the grid's begin to each of its points.
  std::vector<double> weight, first, second;
};

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_STEPFUNCTION_H
