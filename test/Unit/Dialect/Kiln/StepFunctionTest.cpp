//===- StepFunctionTest.cpp - Optimal step functions ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The tests recompute the errors of StepFitter with another integration rule
// and without prefix sums.
//
//===----------------------------------------------------------------------===//

#include "StepFunction.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>

using namespace kiln;

namespace {

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

double gelu(double x) { return 0.5 * x * (1 + std::erf(x / std::sqrt(2.0))); }

double geluTanh(double x) {
  return 0.5 * x *
         (1 + std::tanh(std::sqrt(2 / M_PI) * (x + 0.044715 * x * x * x)));
}

double silu(double x) { return x * sigmoid(x); }

/// Returns the derivative by finite differences, accurate to about 1e-10.
template <double (*f)(double)> double derivative(double x) {
  double h = 1e-3;
  return (8 * (f(x + h) - f(x - h)) - (f(x + 2 * h) - f(x - 2 * h))) / (12 * h);
}

double step(double x) { return x > 0; }

const std::pair<const char *, double (*)(double)> functions[] = {
    {"gelu", derivative<gelu>},
    {"gelu tanh", derivative<geluTanh>},
    {"silu", derivative<silu>}};

double errorOf(double (*f)(double), const StepFunction &q) {
  constexpr int points = 48000;
  double width = 12.0 / points, sum = 0;
  for (int i = 0; i < points; ++i) {
    double x = -6 + (i + 0.5) * width, difference = f(x) - q(x);
    sum += difference * difference * std::exp(-x * x / 2) * width;
  }
  return sum / std::sqrt(2 * M_PI);
}

/// Returns steps of equal width between -range and range, extended to infinity,
/// with optimal levels.
StepFunction equalWidth(double (*f)(double), int steps, double range) {
  StepFunction q;
  for (int i = 1; i < steps; ++i)
    q.borders.push_back(-range + 2 * range * i / steps);
  constexpr int points = 48000;
  std::vector<double> sums(steps), weights(steps);
  for (int i = 0; i < points; ++i) {
    double x = -6 + (i + 0.5) * 12 / points, weight = std::exp(-x * x / 2);
    auto step = std::lower_bound(q.borders.begin(), q.borders.end(), x) -
                q.borders.begin();
    sums[step] += f(x) * weight;
    weights[step] += weight;
  }
  for (int step = 0; step < steps; ++step)
    q.levels.push_back(sums[step] / weights[step]);
  q.error = errorOf(f, q);
  return q;
}

/// Returns `steps` with each level replaced by the value of f at the centre of
/// the step.
StepFunction centred(double (*f)(double), StepFunction steps, double range) {
  double width = 2 * range / double(steps.levels.size());
  for (size_t i = 0; i < steps.levels.size(); ++i)
    steps.levels[i] = f(-range + (double(i) + 0.5) * width);
  return steps;
}

TEST(StepFunction, BeatsEqualWidth) {
  for (auto [name, f] : functions) {
    SCOPED_TRACE(name);
    StepFitter fitter(f);
    double previous = 1;
    for (int bits = 1; bits <= 4; ++bits) {
      SCOPED_TRACE(bits);
      StepFunction best = fitter.fit(1 << bits);
      ASSERT_EQ(best.levels.size(), size_t(1) << bits);
      ASSERT_EQ(best.borders.size(), best.levels.size() - 1);
      EXPECT_TRUE(std::is_sorted(best.borders.begin(), best.borders.end()));
      double error = errorOf(f, best);
      EXPECT_NEAR(best.error, error, 1e-6);
      EXPECT_LT(error, previous);
      previous = error;
      for (double range : {2.0, 3.0, 4.0}) {
        SCOPED_TRACE(range);
        // `equal` has as many steps as `best`, all of equal width and with
        // optimal levels. The error of `equal` must be larger than that of
        // `best` unless there are only two steps. Both functions then have
        // their only border at 0, so their errors are equal.
        StepFunction equal = equalWidth(f, 1 << bits, range);
        if (bits == 1)
          EXPECT_NEAR(best.error, equal.error, 1e-6);
        else
          EXPECT_LT(best.error, 0.75 * equal.error);
        // `best` must have a smaller error than `equal` with each level
        // replaced by the value of f at the centre of the step.
        EXPECT_LT(best.error, 0.9 * errorOf(f, centred(f, equal, range)));
      }
    }
  }
}

TEST(StepFunction, IsOptimal) {
  // Find the optimum of three steps by enumerating all pairs of borders.
  for (auto [name, f] : functions) {
    SCOPED_TRACE(name);
    StepFitter fitter(f);
    StepFunction best = fitter.fit(3);
    double least = HUGE_VAL;
    std::vector<double> w = {0}, fw = {0}, ffw = {0};
    constexpr int cells = 512;
    for (int i = 0; i < cells; ++i) {
      double x = -6 + (i + 0.5) * 12 / cells, y = f(x);
      double share = std::exp(-x * x / 2) / std::sqrt(2 * M_PI) * 12 / cells;
      w.push_back(w.back() + share);
      fw.push_back(fw.back() + share * y);
      ffw.push_back(ffw.back() + share * y * y);
    }
    auto cost = [&](int s, int t) {
      double sum = fw[t] - fw[s];
      return ffw[t] - ffw[s] - sum * sum / (w[t] - w[s]);
    };
    for (int s = 1; s < cells; ++s)
      for (int t = s + 1; t < cells; ++t)
        least = std::min(least, cost(0, s) + cost(s, t) + cost(t, cells));
    EXPECT_NEAR(best.error, least, 5e-5);
  }
}

TEST(StepFunction, FindsSteps) {
  StepFunction exact = StepFitter(step).fit(2);
  ASSERT_EQ(exact.borders.size(), 1u);
  // In the cell next to the jump, Simpson's rule evaluates f on both sides of
  // the jump, so the result is not exact.
  EXPECT_NEAR(exact.borders[0], 0, 12.0 / 2048);
  EXPECT_NEAR(exact.levels[0], 0, 1e-2);
  EXPECT_NEAR(exact.levels[1], 1, 1e-2);
  EXPECT_LT(exact.error, 1e-2);
}

TEST(StepFunction, MakesManySteps) {
  StepFunction fine = StepFitter(derivative<silu>).fit(256);
  EXPECT_EQ(fine.levels.size(), 256u);
  EXPECT_LT(fine.error, 1e-5);
  for (size_t i = 1; i < fine.borders.size(); ++i)
    EXPECT_LT(fine.borders[i - 1], fine.borders[i]);
  for (double border : fine.borders)
    EXPECT_EQ(border, double(float(border)));
}

} // namespace
