//===- GeluAccuracyTest.cpp - Accuracy of GELU for negative inputs --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Measures GELU with erf and GELU with tanh on [-40, 0] in every element type
// against 80-bit references. Prints the figures of docs/design/numerics.md and
// checks that they do not exceed their bounds.
//
//===----------------------------------------------------------------------===//

#include "RowRunner.h"

#include "kiln/Support/ElementConversion.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <limits>

using namespace kiln::support;
using namespace kiln::test;
using namespace kiln;

namespace {

constexpr double kEnds[] = {0, 1, 2, 3, 4, 5, 6, 8, 10, 14, 40};
constexpr size_t kIntervals = std::size(kEnds) - 1;

/// The largest relative error per interval, and the largest absolute error.
struct Errors {
  std::array<double, kIntervals> relative;
  double absolute;
};

/// Computes the reference without cancellation: 1 + erf(z) is erfc(-z), and 1 +
/// tanh(u) is 2 sigmoid(2u).
long double reference(long double x, bool isTanh) {
  if (!isTanh)
    return x / 2 * std::erfc(-x / std::sqrt(2.0L));
  long double pi = std::acos(-1.0L);
  long double u = std::sqrt(2 / pi) * (x + 0.044715L * x * x * x);
  return x / (1 + std::exp(-2 * u));
}

/// An element type of a kernel: its storage type and the type of its
/// arithmetic.
struct Float32 {
  using Storage = float;
  using Compute = float;
  static constexpr const char *name = "f32";
  static float store(double x) { return static_cast<float>(x); }
  static double load(float x) { return x; }
};
struct Float64 {
  using Storage = double;
  using Compute = double;
  static constexpr const char *name = "f64";
  static double store(double x) { return x; }
  static double load(double x) { return x; }
};
struct Bfloat16 {
  using Storage = uint16_t;
  using Compute = float;
  static constexpr const char *name = "bf16";
  static uint16_t store(double x) { return doubleToBfloat(x); }
  static double load(uint16_t x) { return bfloatToFloat(x); }
};

/// Returns the magnitude below which a result of GELU counts as underflow: the
/// result is subnormal, or the exponential in x / (1 + exp(-2u)) overflows.
template <typename T> double underflow(double x) {
  return std::max<double>(std::numeric_limits<T>::min(),
                          -x / std::numeric_limits<T>::max());
}

/// Measures 400,000 points. Errors are relative unless the result underflows.
template <typename Type> Errors measure(bool isTanh) {
  constexpr int64_t rows = 400, columns = 1000;
  RowRunner runner;
  RowCase rowCase;
  rowCase.arguments = "%x: tensor<$Rx$Cx$T>";
  rowCase.body = std::string("%y = kiln.gelu %x ") + (isTanh ? "tanh " : "") +
                 ": tensor<$Rx$Cx$T>";
  rowCase.results = "%y : tensor<$Rx$Cx$T>";
  auto shape = runner.shapeOf(rowCase, rows, columns, Type::name);
  mlir::OwningOpRef<mlir::ModuleOp> module =
      mlir::ModuleOp::create(mlir::UnknownLoc::get(&runner.context));
  int64_t units = cpu::emitRowKernel(*module, "gelu", *shape).units;
  LoadedKernels library(*module);

  std::vector<typename Type::Storage> x(rows * columns), y(x.size());
  for (size_t i = 0; i < x.size(); ++i)
    x[i] = Type::store(-40.0 * double(i) / double(x.size() - 1));
  char *arguments[] = {reinterpret_cast<char *>(x.data()),
                       reinterpret_cast<char *>(y.data())};
  library.find("gelu")(arguments, nullptr, 0, units, nullptr);

  Errors errors = {};
  for (size_t i = 0; i < x.size(); ++i) {
    double point = Type::load(x[i]);
    long double want = reference(point, isTanh);
    auto error = static_cast<double>(std::abs(Type::load(y[i]) - want));
    errors.absolute = std::max(errors.absolute, error);
    if (std::abs(want) < underflow<typename Type::Compute>(point))
      continue;
    size_t interval = 0;
    while (-point > kEnds[interval + 1])
      ++interval;
    auto share = static_cast<double>(error / std::abs(want));
    errors.relative[interval] = std::max(errors.relative[interval], share);
  }
  return errors;
}

template <typename Type> void check(bool isTanh, const Errors &bounds) {
  Errors errors = measure<Type>(isTanh);
  const char *form = isTanh ? "tanh" : "erf";
  for (size_t i = 0; i < kIntervals; ++i) {
    std::printf("gelu %-4s %-4s [%3g, %2g]: %.1e\n", form, Type::name,
                -kEnds[i + 1], 0 - kEnds[i], errors.relative[i]);
    EXPECT_LE(errors.relative[i], bounds.relative[i]);
  }
  std::printf("gelu %-4s %-4s absolute: %.1e\n", form, Type::name,
              errors.absolute);
  EXPECT_LE(errors.absolute, bounds.absolute);
}

TEST(GeluAccuracy, ErfOfF32) {
  check<Float32>(false, {{5e-7, 2e-6, 3e-5, 1e-3, 0.1, 1, 1, 1, 1, 1}, 4e-7});
}
TEST(GeluAccuracy, ErfOfF64) {
  check<Float64>(
      false, {{1e-15, 4e-15, 5e-14, 2e-12, 2e-10, 6e-8, 0.1, 1, 1, 1}, 1e-15});
}
TEST(GeluAccuracy, ErfOfBf16) {
  check<Bfloat16>(false, {{4e-3, 4e-3, 4e-3, 4e-3, 0.1, 1, 1, 1, 1, 1}, 1e-3});
}
TEST(GeluAccuracy, TanhOfF32) {
  check<Float32>(
      true,
      {{5e-7, 7e-7, 2e-6, 3e-6, 4e-6, 6e-6, 1.1e-5, 2.5e-5, 2.5e-5, 0}, 4e-7});
}
TEST(GeluAccuracy, TanhOfF64) {
  check<Float64>(true, {{1e-15, 2e-15, 3e-15, 5e-15, 8e-15, 1.3e-14, 2e-14,
                         5e-14, 8e-14, 2e-13},
                        1e-15});
}
TEST(GeluAccuracy, TanhOfBf16) {
  check<Bfloat16>(
      true, {{4e-3, 4e-3, 4e-3, 4e-3, 4e-3, 4e-3, 4e-3, 4e-3, 4e-3, 0}, 1e-3});
}

} // namespace
