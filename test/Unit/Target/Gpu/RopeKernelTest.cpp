//===- RopeKernelTest.cpp - Rotary embedding on the emulated GPU ----------===//
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

struct Case {
  int64_t sequences, period, heads, headDim;
  bool inverse = false, inPlace = false;
  int64_t padding = 0; ///< Padding columns per row.
  int64_t skip = 0;    ///< Offset of each argument in bytes.
};

template <typename T = float> void check(const Case &c) {
  SCOPED_TRACE(testing::Message()
               << c.headDim << " inverse " << c.inverse << " in place "
               << c.inPlace << " padding " << c.padding << " skip " << c.skip);
  int64_t rows = c.sequences * c.period, half = c.headDim / 2;
  int64_t columns = c.heads * c.headDim, stride = columns + c.padding;
  RopeShape shape;
  shape.rows = rows;
  shape.heads = c.heads;
  shape.headDim = c.headDim;
  shape.period = c.period;
  shape.inverse = c.inverse;
  shape.xStride = stride;
  shape.yStride = c.inPlace ? stride : columns;

  Memory memory;
  Place x = memory.add(someValues<T>(rows * stride, 1), c.skip);
  // The tables have more positions than a sequence has rows.
  Place cosine = memory.add(someFloats((c.period + 3) * half, 2), c.skip);
  Place sine = memory.add(someFloats((c.period + 3) * half, 3), c.skip);
  Place y = c.inPlace
                ? updated(x)
                : written(memory.add(someValues<T>(rows * columns, 4), c.skip));
  expectSameBits(
      memory, {x, cosine, sine, y}, {},
      [&](auto module, auto name, auto b) {
        shape.elementType = elementType<T>(b);
        return cpu::emitRope(module, name, shape);
      },
      [&](auto kernels, auto name, auto b, auto alignments) {
        shape.elementType = elementType<T>(b);
        return gpu::emitRope(kernels, name, shape, alignments);
      });
}

TEST(GpuRope, MovesWholeVectors) {
  check({2, 7, 3, 64});
  check({9, 2, 5, 64, false, /*inPlace=*/true});
  check({1, 5, 2, 24, /*inverse=*/true});
  check({2, 3, 5, 128, true, /*inPlace=*/true});
}

TEST(GpuRope, Bfloats) {
  check<Bfloat>({2, 7, 3, 64});
  check<Bfloat>({1, 5, 2, 24, /*inverse=*/true});
  check<Bfloat>({2, 70, 5, 128, true, /*inPlace=*/true});
  check<Bfloat>({2, 7, 3, 18, true, true, /*padding=*/5});
  check<Bfloat>({2, 7, 3, 64, false, true, 4, /*skip=*/4});
  check<Bfloat>({1, 7, 1, 2, false, false, 0, 8});
}

TEST(GpuRope, OddPlaces) {
  check({2, 7, 3, 20, false, false});
  check({2, 7, 3, 18, true, true, /*padding=*/5});
  check({2, 7, 3, 64, false, false, 3});
  check({2, 7, 3, 64, false, true, 4, /*skip=*/4});
  check({1, 7, 1, 2, false, false, 0, 8});
}

} // namespace
