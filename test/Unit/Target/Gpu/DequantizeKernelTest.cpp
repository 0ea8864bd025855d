//===- DequantizeKernelTest.cpp - Decoded weights on the emulated GPU -----===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelPair.h"

#include "../KernelCalls.h"
#include "kiln/Support/Int8.h"

#include <gtest/gtest.h>

using namespace kiln;
using namespace kiln::support;
using namespace kiln::test;

namespace {

template <typename T>
void check(int64_t rows, int64_t columns, const Int8Options &options) {
  SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", block "
                                  << options.block << ", " << options.outliers
                                  << " outliers in " << options.inputs);
  Int8Layout layout(rows, columns, options);
  std::vector<float> weight = someFloats(size_t(layout.elements), 1);
  std::vector<char> bytes(size_t(layout.bytes));
  Int8Encoder encoder(layout, bytes.data());
  encoder.survey(weight.data(), layout.elements);
  encoder.append(weight.data(), layout.elements);
  ASSERT_TRUE(encoder.finish());

  Memory memory;
  Place codes = memory.add(bytes);
  Place y = memory.add(std::vector<T>(weight.size()));
  memory.add(someFloats(4, 2));
  expectSameBits(
      memory, {codes, written(y)}, {},
      [&](auto module, auto name, auto b) {
        return cpu::emitDequantize(module, name, layout, elementType<T>(b));
      },
      [&](auto kernels, auto name, auto b, auto alignments) {
        return gpu::emitDequantize(kernels, name, layout, elementType<T>(b),
                                   alignments);
      });
}

TEST(GpuDequantize, Int8) {
  check<Bfloat>(12, 256, {64, 0, 0});
  check<float>(12, 256, {256, 0, 0});
  check<float>(1, 1, {64, 0, 0});
  // The length of a row is not a multiple of the number of elements per thread.
  check<Bfloat>(9, 42, {42, 0, 0});
  check<float>(9, 42, {64, 0, 0});
}

TEST(GpuDequantize, Int8Outliers) {
  for (int64_t inputs : {0, 1})
    for (int64_t outliers : {1, 3}) {
      check<Bfloat>(12, 256, {64, outliers, inputs});
      check<float>(9, 42, {42, outliers, inputs});
      check<Bfloat>(9, 42, {64, outliers, inputs});
      check<float>(3, 5, {64, outliers, inputs});
    }
}

} // namespace
