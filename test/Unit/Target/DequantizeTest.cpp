//===- DequantizeTest.cpp - The kernels that decode weights ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelCalls.h"

#include "kiln/Support/Dynamic8.h"
#include "kiln/Support/Nf4.h"
#include "kiln/Support/WeightEncoding.h"

#include <algorithm>
#include <random>

using namespace kiln;
using namespace kiln::cpu;
using namespace kiln::support;
using namespace kiln::test;

namespace {

/// Compares the kernel with decodeNf4(), bit for bit, for random codes and
/// scales.
template <typename T> void check(int64_t elements) {
  SCOPED_TRACE(testing::Message() << elements << " elements");
  Nf4Layout layout(elements);
  std::mt19937 generator(static_cast<unsigned>(elements));
  std::vector<char> bytes(static_cast<size_t>(layout.bytes));
  for (char &byte : bytes)
    byte = static_cast<char>(generator());
  std::uniform_real_distribution<float> uniform(-0.5f, 2.0f);
  // Set the nested scale of each group, then the offset of all scales.
  for (int64_t i = 0; i <= layout.groups; ++i) {
    float number = uniform(generator);
    std::memcpy(bytes.data() + layout.nestedScalesAt + 4 * i, &number, 4);
  }
  std::vector<float> table(dynamicValues(DynamicMap::Signed).begin(),
                           dynamicValues(DynamicMap::Signed).end());
  table.insert(table.end(), nf4Values.begin(), nf4Values.end());
  std::vector<float> wide(static_cast<size_t>(elements));
  decodeNf4(bytes.data(), layout, 0, elements, wide.data());
  std::vector<T> want(wide.begin(), wide.end());

  CompiledKernel decode([&](auto module, auto name, mlir::Builder b) {
    return emitDequantize(module, name, layout, elementType<T>(b));
  });
  for (int calls : {1, 2, 3}) {
    std::vector<T> got(want.size() + 16, T(77));
    decode.run({bytes.data(), table.data(), got.data()}, {}, calls);
    EXPECT_TRUE(
        sameBits(want, std::vector<T>(got.begin(), got.begin() + elements)));
    EXPECT_EQ(std::count(got.begin() + elements, got.end(), T(77)), 16);
  }
}

TEST(Dequantize, Nf4EqualsTheDecoderInEveryBit) {
  for (int64_t elements : {1, 2, 7, 8, 63, 64, 65, 231, 64 * 256 + 70}) {
    check<float>(elements);
    check<Bfloat>(elements);
  }
}

/// Compares the kernel with the decoder, bit for bit.
template <typename T>
void checkInt8(int64_t rows, int64_t columns, const Int8Options &options) {
  SCOPED_TRACE(testing::Message() << rows << " x " << columns << ", block "
                                  << options.block << ", " << options.outliers
                                  << " outliers in " << options.inputs);
  Int8Layout layout(rows, columns, options);
  auto elements = static_cast<size_t>(layout.elements);
  std::vector<float> weight = someValues<float>(elements, 1);
  std::vector<char> bytes(static_cast<size_t>(layout.bytes));
  Int8Encoder encoder(layout, bytes.data());
  encoder.survey(weight.data(), layout.elements);
  encoder.append(weight.data(), layout.elements);
  ASSERT_TRUE(encoder.finish());
  std::vector<float> wide(elements);
  decodeInt8(bytes.data(), layout, 0, layout.elements, wide.data());
  std::vector<T> want(wide.begin(), wide.end());

  CompiledKernel decode([&](auto module, auto name, mlir::Builder b) {
    return emitDequantize(module, name, layout, elementType<T>(b));
  });
  for (int calls : {1, 2, 3}) {
    std::vector<T> got(elements + 16, T(77));
    decode.run({bytes.data(), got.data()}, {}, calls);
    EXPECT_TRUE(
        sameBits(want, std::vector<T>(got.begin(), got.begin() + elements)));
    EXPECT_EQ(std::count(got.begin() + elements, got.end(), T(77)), 16);
  }
}

TEST(Dequantize, Int8EqualsTheDecoderInEveryBit) {
  const int64_t shapes[][2] = {{1, 1},  {1, 130}, {7, 64}, {5, 256},
                               {9, 42}, {33, 17}, {3, 100}};
  for (auto [rows, columns] : shapes)
    for (int64_t block : {Int8Layout::blockElements, columns})
      for (int64_t inputs : {0, 1})
        for (int64_t outliers : {int64_t(0), int64_t(1), int64_t(3)}) {
          if (outliers > (inputs == 0 ? rows : columns) ||
              (outliers == 0 && inputs == 1))
            continue;
          Int8Options options{block, outliers, inputs};
          checkInt8<float>(rows, columns, options);
          checkInt8<Bfloat>(rows, columns, options);
        }
}

} // namespace
