//===- VectorMathTest.cpp - Errors of the elementary functions ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares each function with the f64 function of the C library over the whole
// range of inputs, and random numbers with those of the Philox generator of the
// runtime.
//
//===----------------------------------------------------------------------===//

#include "KernelBuilder.h"

#include "KernelRunner.h"
#include "kiln/Target/Common/VectorMath.h"

#include "kiln/Support/Rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <limits>

using namespace kiln::cpu;
using namespace kiln::support;
using namespace kiln;
using mlir::Value;

namespace {

using Emit = Value (*)(ArithBuilder &, Value);

struct Function {
  const char *name;
  Emit emit;
  double (*reference)(double);
};

double sigmoid(double x) { return 1 / (1 + std::exp(-x)); }
double libraryExp(double x) { return std::exp(x); }
double libraryLog(double x) { return std::log(x); }
double libraryTanh(double x) { return std::tanh(x); }
double libraryErf(double x) { return std::erf(x); }

const Function functions[] = {
    {"exp", emitExp, libraryExp},      {"log", emitLog, libraryLog},
    {"tanh", emitTanh, libraryTanh},   {"erf", emitErf, libraryErf},
    {"sigmoid", emitSigmoid, sigmoid},
};

/// Emits y[i] = f(x[i]) for units of 16 elements, both with vectors and element
/// by element.
void emitMap(mlir::ModuleOp module, const Function &function, bool isDouble) {
  for (bool isVector : {true, false}) {
    std::string name = std::string(function.name) + (isDouble ? "64" : "32") +
                       (isVector ? "v" : "s");
    KernelBuilder k(module, name, 2, 0);
    mlir::Type type = isDouble ? k.f64() : k.f32();
    Value low = k.mul(k.begin(), k.i64Constant(kLanes));
    Value high = k.mul(k.end(), k.i64Constant(kLanes));
    k.loop(low, high, isVector ? kLanes : 1, [&](Value i) {
      Value x = k.element(k.arg(0), type, i), y = k.element(k.arg(1), type, i);
      if (isVector)
        k.storeVector(function.emit(k, k.loadVector(x, type)), y);
      else
        k.store(function.emit(k, k.load(x, type)), y);
    });
    k.finish();
  }
}

class VectorMath : public testing::Test {
protected:
  static void SetUpTestSuite() {
    context = new mlir::MLIRContext(mlir::MLIRContext::Threading::DISABLED);
    loadKernelDialects(*context);
    for (bool isDouble : {false, true}) {
      auto module = mlir::ModuleOp::create(mlir::UnknownLoc::get(context));
      for (const Function &function : functions)
        emitMap(module, function, isDouble);
      kernels[isDouble] = new test::LoadedKernels(module);
      module->erase();
    }
  }
  static void TearDownTestSuite() {
    delete kernels[0];
    delete kernels[1];
    delete context;
  }

  template <typename T>
  static std::vector<T> apply(const std::string &name, std::vector<T> x) {
    size_t size = x.size();
    x.resize((size + kLanes - 1) / kLanes * kLanes);
    std::vector<T> y(x.size());
    char *args[] = {reinterpret_cast<char *>(x.data()),
                    reinterpret_cast<char *>(y.data())};
    std::string suffix = sizeof(T) == 8 ? "64" : "32";
    auto &library = *kernels[sizeof(T) == 8];
    library.find(name + suffix + "v")(args, nullptr, 0, x.size() / kLanes,
                                      nullptr);
    std::vector<T> scalar(x.size());
    args[1] = reinterpret_cast<char *>(scalar.data());
    library.find(name + suffix + "s")(args, nullptr, 0, x.size() / kLanes,
                                      nullptr);
    EXPECT_EQ(0, std::memcmp(y.data(), scalar.data(), x.size() * sizeof(T)))
        << name << ": vectors and scalars differ";
    y.resize(size);
    return y;
  }

  static mlir::MLIRContext *context;
  static test::LoadedKernels *kernels[2];
};

mlir::MLIRContext *VectorMath::context;
test::LoadedKernels *VectorMath::kernels[2];

/// Returns |got - want| in ULP of `want`.
double ulps(float got, double want) {
  if (std::isnan(want) || std::isinf(want) || std::isnan(got))
    return (std::isnan(got) && std::isnan(want)) || got == want ? 0 : 1e30;
  int exponent = std::max(std::ilogb(want == 0 ? 1e-45 : want), -126);
  return std::abs(got - want) / std::ldexp(1, exponent - 23);
}

/// Returns every `stride`-th float from low to high.
std::vector<float> floatsBetween(float low, float high, uint32_t stride) {
  std::vector<float> x;
  // Requires equal signs and |from| < |to|.
  auto sweep = [&](float from, float to) {
    uint32_t first, last;
    std::memcpy(&first, &from, 4);
    std::memcpy(&last, &to, 4);
    for (uint64_t bits = first; bits <= last; bits += stride) {
      uint32_t word = bits;
      float value;
      std::memcpy(&value, &word, 4);
      x.push_back(value);
    }
  };
  if (low < 0)
    sweep(high < 0 ? high : -0.0f, low);
  if (high > 0)
    sweep(low > 0 ? low : 0.0f, high);
  return x;
}

double maxUlps(const Function &function, const std::vector<float> &x,
               const std::vector<float> &y) {
  double worst = 0, where = 0;
  for (size_t i = 0; i < x.size(); ++i) {
    double error = ulps(y[i], function.reference(x[i]));
    if (error > worst) {
      worst = error;
      where = x[i];
    }
  }
  std::printf("%s: %.3f ulp at %.9g (%zu arguments)\n", function.name, worst,
              where, x.size());
  return worst;
}

constexpr float kInfinity = std::numeric_limits<float>::infinity();

TEST_F(VectorMath, ErrorsInUlps) {
  struct Range {
    size_t function;
    float low, high;
    double bound;
  };
  const Range ranges[] = {{0, -86.6f, 88.72f, 1.5},
                          {1, 1e-44f, 3e38f, 2},
                          {2, -20, 20, 2},
                          {3, -10, 10, 2},
                          {4, -80, 80, 3}};
  for (const Range &range : ranges) {
    const Function &function = functions[range.function];
    auto x = floatsBetween(range.low, range.high, 4093);
    EXPECT_LE(maxUlps(function, x, apply(function.name, x)), range.bound)
        << function.name;
  }
}

TEST_F(VectorMath, SpecialValues) {
  const float nan = std::numeric_limits<float>::quiet_NaN();
  float payload;
  uint32_t bits = 0x7fc00001;
  std::memcpy(&payload, &bits, 4);
  for (const Function &function : functions)
    for (float y : apply<float>(function.name, {nan, -nan, payload}))
      EXPECT_TRUE(std::isnan(y)) << function.name;

  auto exp = apply<float>(
      "exp", {-kInfinity, kInfinity, 0, -0.0f, 89, 1000, -1000, -88});
  EXPECT_EQ(exp, (std::vector<float>{0, kInfinity, 1, 1, kInfinity, kInfinity,
                                     0, 0}));
  auto log = apply<float>("log", {0, -0.0f, 1, kInfinity});
  EXPECT_EQ(log, (std::vector<float>{-kInfinity, -kInfinity, 0, kInfinity}));
  for (float y : apply<float>("log", {-1, -kInfinity, -1e-40f}))
    EXPECT_TRUE(std::isnan(y));
  EXPECT_EQ(apply<float>("tanh", {kInfinity, -kInfinity, 0}),
            (std::vector<float>{1, -1, 0}));
  EXPECT_EQ(apply<float>("erf", {kInfinity, -kInfinity, 0}),
            (std::vector<float>{1, -1, 0}));
  EXPECT_EQ(apply<float>("sigmoid", {kInfinity, -kInfinity, 0}),
            (std::vector<float>{1, 0, 0.5}));
}

TEST_F(VectorMath, DoublesAreTheLibrarys) {
  std::vector<double> x;
  for (int i = 0; i < 1000; ++i)
    x.push_back(std::ldexp(std::sin(i * 0.7) + 1.1, i % 9 - 3));
  for (const Function &function : functions) {
    auto y = apply(function.name, x);
    for (size_t i = 0; i < x.size(); ++i)
      EXPECT_NEAR(y[i], function.reference(x[i]),
                  1e-15 * std::abs(function.reference(x[i])))
          << function.name;
  }
}

TEST_F(VectorMath, NoLibraryCallsInF32) {
  EXPECT_EQ(kernels[0]->undefinedSymbols(), std::vector<std::string>());
  EXPECT_EQ(kernels[1]->undefinedSymbols(),
            (std::vector<std::string>{"erf", "exp", "log", "tanh"}));
}

TEST_F(VectorMath, RandomBlocksArePhilox) {
  auto module = mlir::ModuleOp::create(mlir::UnknownLoc::get(context));
  {
    // The immediates are the seed, the key, the block and three counters.
    KernelBuilder k(module, "bits", 1, 6);
    Value key = emitRandomKey(k, k.immediate(0), k.immediate(1));
    auto block = emitRandomBlock(k, key, k.immediate(2), k.immediate(3),
                                 k.immediate(4), k.immediate(5));
    for (int v = 0; v < 4; ++v)
      k.storeVector(block[v], k.element(k.arg(0), k.i32(), v * kLanes));
    k.finish();
  }
  test::LoadedKernels library(module);
  module->erase();
  const int64_t imm[] = {1234567890123, 17, 5, 99, int64_t{7} << 40 | 3, 42};
  uint32_t bits[kBlock];
  char *args[] = {reinterpret_cast<char *>(bits)};
  library.find("bits")(args, imm, 0, 1, nullptr);
  uint64_t key = splitmix64(imm[0] + 0x9E3779B97F4A7C15 * (imm[1] + 1));
  for (uint32_t column = 0; column < kBlock; ++column) {
    auto words = philox4x32({uint32_t(imm[2]) * 16 + column % 16, 99u, 3u, 42u},
                            {uint32_t(key), uint32_t(key >> 32)});
    EXPECT_EQ(bits[column], words[column / 16 % 4]);
  }
}

} // namespace
