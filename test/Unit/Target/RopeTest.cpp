//===- RopeTest.cpp - Rotary embedding kernels against plain loops --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelCalls.h"

using namespace kiln;
using namespace kiln::cpu;
using namespace kiln::test;

namespace {

template <typename T>
void check(int64_t sequences, int64_t period, int64_t heads, int64_t headDim,
           bool inverse, bool inPlace) {
  SCOPED_TRACE(testing::Message()
               << headDim << " inverse " << inverse << " in place " << inPlace);
  int64_t rows = sequences * period, half = headDim / 2;
  int64_t columns = heads * headDim, xStride = columns + 5;
  int64_t yStride = inPlace ? xStride : columns + 3;
  auto x = someValues<T>(rows * xStride, 1);
  // The tables have more positions than a sequence has rows.
  auto cosine = someValues<Full<T>>((period + 3) * half, 2);
  auto sine = someValues<Full<T>>((period + 3) * half, 3);
  std::vector<T> start = inPlace ? x : std::vector<T>(rows * yStride, T(77));
  std::vector<T> want = start;
  for (int64_t r = 0; r < rows; ++r)
    for (int64_t h = 0; h < heads; ++h)
      for (int64_t j = 0; j < half; ++j) {
        Full<T> c = cosine[r % period * half + j];
        Full<T> s = sine[r % period * half + j] * (inverse ? -1 : 1);
        Full<T> x1 = x[r * xStride + h * headDim + j];
        Full<T> x2 = x[r * xStride + h * headDim + j + half];
        Full<T> down = x2 * s, up = x1 * s;
        T *y = &want[r * yStride + h * headDim + j];
        y[0] = std::fma(x1, c, -down);
        y[half] = std::fma(x2, c, up);
      }

  CompiledKernel kernel([&](auto module, auto name, mlir::Builder b) {
    RopeShape shape;
    shape.rows = rows;
    shape.heads = heads;
    shape.headDim = headDim;
    shape.period = period;
    shape.inverse = inverse;
    shape.elementType = elementType<T>(b);
    shape.xStride = xStride;
    shape.yStride = yStride;
    return emitRope(module, name, shape);
  });
  for (int calls : {1, 2, 3}) {
    std::vector<T> y = start;
    kernel.run(
        {inPlace ? y.data() : x.data(), cosine.data(), sine.data(), y.data()},
        {}, calls);
    EXPECT_TRUE(sameBits(y, want));
  }
}

TEST(Rope, TurnsHalves) {
  for (int64_t headDim : {8, 24, 64, 80, 128})
    for (bool inverse : {false, true})
      check<float>(2, 7, 3, headDim, inverse, /*inPlace=*/inverse);
  check<double>(3, 5, 2, 40, false, true);
}

TEST(Rope, TurnsBfloats) {
  for (int64_t headDim : {8, 24, 64, 80})
    for (bool inverse : {false, true})
      check<Bfloat>(2, 7, 3, headDim, inverse, /*inPlace=*/inverse);
}

} // namespace
