//===- DequantizeTest.cpp - The kernel that decodes weights ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "KernelCalls.h"

#include "kiln/Support/Dynamic8.h"
#include "kiln/Support/Nf4.h"

#include <algorithm>
#include <random>

using namespace kiln;
using namespace kiln::cpu;
using namespace kiln::support;
using namespace kiln::test;

namespace {

/// Compares the kernel with decodeNf4(), bit for bit, for any codes and scales.
template <typename T> void check(int64_t elements) {
  SCOPED_TRACE(testing::Message() << elements << " elements");
  Nf4Layout layout(elements);
  std::mt19937 generator(static_cast<unsigned>(elements));
  std::vector<char> bytes(static_cast<size_t>(layout.bytes));
  for (char &byte : bytes)
    byte = static_cast<char>(generator());
  std::uniform_real_distribution<float> uniform(-0.5f, 2.0f);
  for (int64_t i = 0; i <= layout.groups; ++i) { // The offset is the last one.
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
    return emitDequantize(module, name, elements, elementType<T>(b));
  });
  for (int calls : {1, 2, 3}) {
    std::vector<T> got(want.size() + 16, T(77));
    decode.run({bytes.data(), table.data(), got.data()}, {}, calls);
    EXPECT_TRUE(
        sameBits(want, std::vector<T>(got.begin(), got.begin() + elements)));
    EXPECT_EQ(std::count(got.begin() + elements, got.end(), T(77)), 16);
  }
}

TEST(Dequantize, EqualsTheDecoderInEveryBit) {
  for (int64_t elements : {1, 2, 7, 8, 63, 64, 65, 231, 64 * 256 + 70}) {
    check<float>(elements);
    check<Bfloat>(elements);
  }
}

} // namespace
