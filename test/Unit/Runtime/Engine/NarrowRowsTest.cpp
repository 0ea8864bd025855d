//===- NarrowRowsTest.cpp - Conversion of matrices of narrow floats -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares conversions of matrices between f32 and bf16 or f16 with conversions
// of single elements.
//
//===----------------------------------------------------------------------===//

#include "NarrowRows.h"

#include "kiln/Support/ElementConversion.h"

#include <cmath>
#include <cstring>
#include <gtest/gtest.h>
#include <limits>
#include <random>
#include <vector>

using namespace kiln::runtime;
using namespace kiln::support;

namespace {

class NarrowRowsTest : public testing::TestWithParam<ElementType> {
protected:
  float widened(uint16_t bits) const {
    return GetParam() == ElementType::F16 ? halfToFloat(bits)
                                          : bfloatToFloat(bits);
  }
  uint16_t narrowed(float value) const {
    return GetParam() == ElementType::F16 ? doubleToHalf(double(value))
                                          : doubleToBfloat(double(value));
  }
};

TEST_P(NarrowRowsTest, WidensEveryValue) {
  constexpr int64_t columns = 1 << 16;
  std::vector<uint16_t> all(columns);
  for (int64_t i = 0; i < columns; ++i)
    all[size_t(i)] = uint16_t(i);
  std::vector<float> wide(columns);
  // Use rows of odd length at an odd offset.
  const char *from = reinterpret_cast<const char *>(all.data());
  wide[0] = widened(0);
  widenRows(GetParam(), from + 2, 257, 255, 257, wide.data() + 1, 257);
  for (int64_t i = 0; i < columns; ++i) {
    float expected = widened(uint16_t(i)), found = wide[size_t(i)];
    if (std::isnan(expected))
      ASSERT_TRUE(std::isnan(found)) << i;
    else
      ASSERT_EQ(std::memcmp(&found, &expected, 4), 0) << i;
  }
}

TEST_P(NarrowRowsTest, RoundsToNearestEven) {
  std::vector<float> values = {0.0f,
                               -0.0f,
                               1.0f,
                               1.00390625f, // A tie of bf16, rounded to even.
                               1.01171875f,
                               1.00048828125f, // A tie of f16.
                               1.00146484375f,
                               65504.0f, // The largest f16.
                               65520.0f, // A tie of 65504 and 2^16.
                               0x1p-25f, // A tie of 0 and the smallest f16.
                               0x1.8p-24f,
                               std::nextafter(1.00390625f, 2.0f),
                               std::nextafter(1.01171875f, 1.0f),
                               std::numeric_limits<float>::infinity(),
                               -std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::max(),
                               -std::numeric_limits<float>::max(),
                               std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::denorm_min()};
  std::mt19937 generator(1);
  std::normal_distribution<float> normal;
  while (values.size() < 10'000) {
    uint32_t bits = generator();
    float value;
    std::memcpy(&value, &bits, sizeof(value));
    if (!std::isnan(value))
      values.push_back(value);
    values.push_back(normal(generator));
  }
  // The first count is a multiple of 8, and the second is not.
  for (size_t count : {values.size() / 8 * 8, size_t(19)}) {
    std::vector<uint16_t> narrow(count);
    narrowRows(GetParam(), values.data(), int64_t(count), 1, int64_t(count),
               reinterpret_cast<char *>(narrow.data()), int64_t(count));
    for (size_t i = 0; i < count; ++i)
      ASSERT_EQ(narrow[i], narrowed(values[i])) << values[i];
  }
}

TEST_P(NarrowRowsTest, KeepsWhatIsNotANumber) {
  // NaNs whose bits, if rounded like those of a number, would carry into the
  // sign.
  uint32_t bits[9] = {0x7fffffff, 0xffffffff, 0x7f800001,
                      0xff800001, 0x7fc00000, 0x7fffffff,
                      0xffffffff, 0x7f800001, 0xff800001};
  float values[9];
  std::memcpy(values, bits, sizeof(values));
  uint16_t narrow[9];
  narrowRows(GetParam(), values, 9, 1, 9, reinterpret_cast<char *>(narrow), 9);
  for (uint16_t value : narrow)
    EXPECT_TRUE(std::isnan(widened(value))) << value;
}

INSTANTIATE_TEST_SUITE_P(Types, NarrowRowsTest,
                         testing::Values(ElementType::BF16, ElementType::F16));

} // namespace
