//===- StepFunction.cpp - Optimal approximation by step functions ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Prefix integrals give the error of one step in constant time. The recurrence
// of the dynamic programming is evaluated directly, in O(steps * cells^2),
// because a derivative that is not monotone, such as that of GELU, does not
// satisfy the quadrangle inequality that would allow a faster algorithm.
// Fitting 256 steps takes a second; fitting 16 steps takes 30 ms.
//
//===----------------------------------------------------------------------===//

#include "StepFunction.h"

#include <algorithm>
#include <cmath>

namespace kiln {

namespace {

constexpr int64_t kCells = 2048;
constexpr double kLow = -6, kWidth = 12.0 / kCells;

double gridPoint(int64_t cell) { return kLow + double(cell) * kWidth; }

double normalDensity(double x) {
  return std::exp(-x * x / 2) / std::sqrt(2 * M_PI);
}

} // namespace

double StepFunction::operator()(double x) const {
  return levels[std::lower_bound(borders.begin(), borders.end(), x) -
                borders.begin()];
}

StepFitter::StepFitter(llvm::function_ref<double(double)> f)
    : weight(1), first(1), second(1) {
  // Integrate over each cell with Simpson's rule, whose error is far below the
  // error that the grid causes.
  for (int64_t cell = 0; cell < kCells; ++cell) {
    double w = 0, fw = 0, ffw = 0;
    for (int part = 0; part < 3; ++part) {
      double x = gridPoint(cell) + part * kWidth / 2;
      double share = (part == 1 ? 4 : 1) * kWidth / 6 * normalDensity(x);
      double y = f(x);
      w += share;
      fw += share * y;
      ffw += share * y * y;
    }
    weight.push_back(weight.back() + w);
    first.push_back(first.back() + fw);
    second.push_back(second.back() + ffw);
  }
}

double StepFitter::level(int64_t s, int64_t t) const {
  return (first[t] - first[s]) / (weight[t] - weight[s]);
}

double StepFitter::cost(int64_t s, int64_t t) const {
  double sum = first[t] - first[s];
  return second[t] - second[s] - sum * sum / (weight[t] - weight[s]);
}

StepFunction StepFitter::withBorders(const std::vector<int64_t> &cells) const {
  StepFunction function;
  for (size_t i = 0; i + 1 < cells.size(); ++i) {
    if (i > 0)
      function.borders.push_back(gridPoint(cells[i]));
    function.levels.push_back(level(cells[i], cells[i + 1]));
    function.error += cost(cells[i], cells[i + 1]);
  }
  return function;
}

StepFunction StepFitter::fit(int32_t steps) const {
  // The error of a single step on the cells [s, t), for all s < t. Elements
  // with the same t are contiguous.
  std::vector<double> costs;
  costs.reserve(kCells * (kCells + 1) / 2);
  for (int64_t t = 1; t <= kCells; ++t)
    for (int64_t s = 0; s < t; ++s)
      costs.push_back(cost(s, t));
  // best[t] is the least error on the first t cells of a function with k steps,
  // where k is the current number of steps.
  std::vector<double> best(kCells + 1, HUGE_VAL), next(kCells + 1);
  std::vector<std::vector<int32_t>> begins;
  best[0] = 0;
  for (int32_t k = 1; k <= steps; ++k) {
    std::fill(next.begin(), next.end(), HUGE_VAL);
    std::vector<int32_t> &begin = begins.emplace_back(kCells + 1, 0);
    for (int64_t t = k; t <= kCells; ++t) {
      const double *last = costs.data() + t * (t - 1) / 2;
      for (int64_t s = k - 1; s < t; ++s)
        if (double error = best[s] + last[s]; error < next[t]) {
          next[t] = error;
          begin[t] = static_cast<int32_t>(s);
        }
    }
    std::swap(best, next);
  }
  std::vector<int64_t> cells = {kCells};
  for (int32_t k = steps; k > 0; --k)
    cells.push_back(begins[k - 1][cells.back()]);
  std::reverse(cells.begin(), cells.end());
  return withBorders(cells);
}

} // namespace kiln
