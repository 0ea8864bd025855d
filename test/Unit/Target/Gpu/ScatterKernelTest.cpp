//===- ScatterKernelTest.cpp - Embedding gradients on the emulated GPU ----===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPair.h"

#include "../KernelCalls.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::test;

namespace {

/// `distinct` is the number of different tokens.
template <typename Dy = float>
void check(int64_t tokens, int64_t vocabulary, int64_t columns,
           int64_t distinct, int64_t padding = 0, int64_t skip = 0,
           std::optional<int64_t> paddingIndex = std::nullopt) {
  ScatterShape shape;
  shape.tokens = tokens;
  shape.vocabulary = vocabulary;
  shape.cols = columns;
  shape.dyStride = columns + padding;
  shape.paddingIndex = paddingIndex;
  std::vector<int32_t> token(tokens);
  for (int64_t i = 0; i < tokens; ++i)
    token[i] = i * i * 7 % distinct * 31 % vocabulary;
  for (int64_t accumulate : {0, 1}) {
    SCOPED_TRACE(testing::Message()
                 << tokens << " tokens, " << vocabulary << "x" << columns
                 << " distinct " << distinct << " padding " << padding
                 << " skip " << skip << " accumulate " << accumulate
                 << " padding index " << paddingIndex.value_or(-1));
    Memory memory;
    Place tokensPlace = memory.add(token, skip);
    Place dy = memory.add(someValues<Dy>(tokens * shape.dyStride, 1), skip);
    Place table = memory.add(someFloats(vocabulary * columns, 2), skip);
    expectSameBits(
        memory, {tokensPlace, dy, accumulate ? updated(table) : written(table)},
        {accumulate},
        [&](auto module, auto name, auto b) {
          shape.elementType = b.getF32Type();
          shape.dyType = elementType<Dy>(b);
          return cpu::emitScatter(module, name, shape);
        },
        [&](auto kernels, auto name, auto b, auto alignments) {
          shape.elementType = b.getF32Type();
          shape.dyType = elementType<Dy>(b);
          return gpu::emitScatter(kernels, name, shape, alignments);
        });
  }
}

TEST(GpuScatter, AddsInTokenOrder) {
  check(100, 13, 64, 13);
  check(100, 13, 17, 5);
  check(64, 40, 8, 40, /*padding=*/4);
}

TEST(GpuScatter, AddsBfloatsInF32) {
  check<Bfloat>(100, 13, 64, 13);
  check<Bfloat>(100, 13, 17, 5);
  check<Bfloat>(64, 40, 8, 40, /*padding=*/2);
  check<Bfloat>(5000, 3, 4, 1);
  check<Bfloat>(103, 13, 66, 13, 2, /*skip=*/8);
  check<Bfloat>(33, 3, 1100, 3, 0, 4);
}

TEST(GpuScatter, SkipsThePaddingIndex) {
  check(100, 13, 64, 13, 0, 0, /*paddingIndex=*/7);
  check(100, 13, 17, 5, 0, 0, 0);
  check(5000, 3, 4, 1, 0, 0, 0);
  check(500, 3001, 8, 2000, 0, 0, 31);
  check<Bfloat>(100, 13, 17, 5, 0, 0, 12);
}

TEST(GpuScatter, ManyRowsPerBlock) { check(500, 3001, 8, 2000); }

/// The token list of a block repeatedly becomes full and must be flushed.
TEST(GpuScatter, FlushesFullLists) {
  check(5000, 3, 4, 1);
  check(4500, 2100, 4, 2);
}

TEST(GpuScatter, OddPlaces) {
  check(101, 13, 64, 13, /*padding=*/1);
  check(103, 13, 66, 13, 2, /*skip=*/8);
  check(64, 9, 1, 9, 0, 4);
  check(1, 5, 300, 1);
  check(33, 3, 1100, 3);
}

} // namespace
