//===- SketchKernelTest.cpp - Sketch kernels on the emulated GPU ----------===//
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

template <typename T = float>
void check(int64_t sequences, int64_t length, int64_t kept, int64_t columns,
           int64_t padding, int64_t skip = 0) {
  SCOPED_TRACE(testing::Message()
               << kept << " of " << length << " rows of " << columns
               << " padding " << padding << " skip " << skip);
  SketchShape shape;
  shape.sequences = sequences;
  shape.length = length;
  shape.kept = kept;
  shape.columns = columns;
  shape.xStride = columns + padding;
  Memory memory;
  Place x =
      memory.add(someValues<T>(sequences * length * shape.xStride, 1), skip);
  Place rng =
      memory.add(std::vector<int64_t>{-7, 5'000'000'123, 4'294'967'290});
  Place y = memory.add(someValues<T>(sequences * kept * columns, 2), skip);
  expectSameBits(
      memory, {x, rng, written(y)}, {11},
      [&](auto module, auto name, auto b) {
        shape.elementType = elementType<T>(b);
        return cpu::emitSketch(module, name, shape);
      },
      [&](auto kernels, auto name, auto b, auto alignments) {
        shape.elementType = elementType<T>(b);
        return gpu::emitSketch(kernels, name, shape, alignments);
      });
}

TEST(GpuSketch, AddsRows) {
  check(3, 10, 4, 36, 0);
  check(1, 64, 16, 64, 4);
  check(2, 7, 6, 5, 3);
  check(2, 9, 1, 16, 0, /*skip=*/4);
}

TEST(GpuSketch, AddsRowsOfBfloats) {
  check<Bfloat>(3, 10, 4, 40, 0);
  check<Bfloat>(1, 64, 16, 64, 4);
  check<Bfloat>(2, 7, 6, 5, 3);
  check<Bfloat>(2, 9, 1, 16, 0, /*skip=*/2);
}

} // namespace
