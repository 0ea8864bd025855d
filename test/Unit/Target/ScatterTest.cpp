//===- ScatterTest.cpp - Table gradients against plain loops --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Additions are in token order and in the element type of the table, so the
// bits of the results are known exactly.
//
//===----------------------------------------------------------------------===//

#include "KernelCalls.h"

using namespace kiln;
using namespace kiln::cpu;
using namespace kiln::test;

namespace {

template <typename T, typename Dy = T>
void check(int64_t tokens, int64_t vocabulary, int64_t cols,
           std::optional<int64_t> paddingIndex = std::nullopt) {
  SCOPED_TRACE(testing::Message()
               << cols << " columns, padding " << paddingIndex.value_or(-2));
  int64_t dyStride = cols + 7;
  std::vector<int32_t> token(tokens);
  for (int64_t i = 0; i < tokens; ++i)
    token[i] = paddingIndex == -1 && i % 3 == 0 ? -1 : i * i * 7 % vocabulary;
  auto dy = someValues<Dy>(tokens * dyStride, 1);
  CompiledKernel kernel([&](auto module, auto name, mlir::Builder b) {
    ScatterShape shape;
    shape.tokens = tokens;
    shape.vocabulary = vocabulary;
    shape.cols = cols;
    shape.paddingIndex = paddingIndex;
    shape.elementType = elementType<T>(b);
    shape.dyType = elementType<Dy>(b);
    shape.dyStride = dyStride;
    return emitScatter(module, name, shape);
  });
  EXPECT_EQ(kernel.launch.units, (cols + 63) / 64);
  for (int64_t accumulate : {0, 1}) {
    // The elements after the table must not change.
    auto table = someValues<T>(vocabulary * cols + 16, 2);
    std::vector<T> want = table;
    if (!accumulate)
      std::fill_n(want.begin(), vocabulary * cols, T(0));
    for (int64_t i = 0; i < tokens; ++i)
      for (int64_t c = 0; c < cols && token[i] != paddingIndex; ++c)
        want[token[i] * cols + c] += dy[i * dyStride + c];
    for (int calls : {1, 2, 3}) {
      std::vector<T> got = table;
      kernel.run({token.data(), dy.data(), got.data()}, {accumulate}, calls);
      EXPECT_TRUE(sameBits(got, want)) << calls << " calls";
    }
  }
}

TEST(Scatter, AddsInTokenOrder) {
  for (int64_t cols : {1, 8, 16, 50, 64, 65, 200, 256})
    check<float>(100, 13, cols);
  check<double>(100, 13, 70);
}

TEST(Scatter, SkipsThePaddingIndex) {
  for (int64_t cols : {1, 16, 50, 200})
    for (int64_t index : {-1, 0, 2, 12})
      check<float>(100, 13, cols, index);
  check<double>(100, 13, 70, 7);
  check<float, Bfloat>(100, 13, 65, 7);
}

TEST(Scatter, AddsBfloatsInF32) {
  for (int64_t cols : {1, 16, 50, 65, 200})
    check<float, Bfloat>(100, 13, cols);
}

} // namespace
