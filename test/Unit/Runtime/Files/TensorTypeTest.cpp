//===- TensorTypeTest.cpp - Tests of element types and conversion ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The narrow types are checked over all their values.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Files/TensorType.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace kiln;

namespace {

TEST(TensorType, NamesRoundTrip) {
  for (int i = 0; i <= int(TensorType::F4); ++i) {
    auto type = TensorType(i);
    EXPECT_EQ(parseTensorType(tensorTypeName(type)), type);
  }
  EXPECT_EQ(parseTensorType("f32"), std::nullopt);
  EXPECT_EQ(parseTensorType(""), std::nullopt);
  EXPECT_EQ(parseProgramType("bf16"), TensorType::BF16);
  EXPECT_EQ(parseProgramType("i1"), TensorType::Bool);
  EXPECT_EQ(parseProgramType("F32"), std::nullopt);
  EXPECT_EQ(parseProgramType(""), std::nullopt);
}

TEST(TensorType, HalfValuesRoundTrip) {
  for (uint32_t bits = 0; bits < 0x10000; ++bits) {
    float value = halfToFloat(bits);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(halfToFloat(doubleToHalf(value))));
    else
      ASSERT_EQ(doubleToHalf(value), bits);
    value = bfloatToFloat(bits);
    if (std::isnan(value))
      EXPECT_TRUE(std::isnan(bfloatToFloat(doubleToBfloat(value))));
    else
      ASSERT_EQ(doubleToBfloat(value), bits);
  }
  EXPECT_EQ(halfToFloat(0x3c00), 1.0f);
  EXPECT_EQ(halfToFloat(0x7bff), 65504.0f);
  EXPECT_EQ(halfToFloat(0x0001), 0x1p-24f);
  EXPECT_EQ(bfloatToFloat(0x3f80), 1.0f);
}

// Just above and below a midpoint, by less than a double can say.
TEST(TensorType, RoundsIntegersOnce) {
  constexpr int64_t one = int64_t(1) << 60, half = one >> 8;
  const int64_t values[] = {one + half + 1,  one + half, one + 3 * half - 1,
                            -one - half - 1, INT64_MIN,  INT64_MAX};
  const double expected[] = {0x1.02p60,  0x1p60,  0x1.02p60,
                             -0x1.02p60, -0x1p63, 0x1p63};
  for (int i = 0; i < 6; ++i) {
    uint16_t bits = 0;
    convertElements(TensorType::I64, values + i, TensorType::BF16, &bits, 1);
    EXPECT_EQ(double(bfloatToFloat(bits)), expected[i]) << values[i];
  }
  uint64_t large = (uint64_t(1) << 63) + (uint64_t(1) << 55) + 1;
  uint16_t bits = 0;
  convertElements(TensorType::U64, &large, TensorType::BF16, &bits, 1);
  EXPECT_EQ(double(bfloatToFloat(bits)), 0x1.02p63);
}

// Midpoints between neighbours go to the even one; anything off the midpoint to
// the nearer one, however little.
TEST(TensorType, RoundsToNearestEven) {
  auto check = [](auto toDouble, auto fromDouble, uint32_t infinity) {
    for (uint32_t bits = 0; bits + 1 < infinity; ++bits) {
      double low = toDouble(bits), high = toDouble(bits + 1);
      double middle = (low + high) / 2;
      ASSERT_EQ(fromDouble(middle), bits % 2 ? bits + 1 : bits);
      ASSERT_EQ(fromDouble(std::nextafter(middle, 1e300)), bits + 1);
      ASSERT_EQ(fromDouble(std::nextafter(middle, 0.0)), bits);
      ASSERT_EQ(fromDouble(-middle), (bits % 2 ? bits + 1 : bits) | 0x8000);
    }
  };
  check(halfToFloat, doubleToHalf, 0x7c00);
  check(bfloatToFloat, doubleToBfloat, 0x7f80);
  EXPECT_EQ(doubleToHalf(65520.0), 0x7c00);
  EXPECT_EQ(doubleToHalf(std::nextafter(65520.0, 0.0)), 0x7bff);
  EXPECT_EQ(doubleToHalf(1e300), 0x7c00);
  EXPECT_EQ(doubleToBfloat(-std::numeric_limits<double>::infinity()), 0xff80);
  EXPECT_EQ(doubleToHalf(5e-324), 0);
  EXPECT_EQ(doubleToHalf(-0.0), 0x8000);
}

template <typename S> void expectConverts(TensorType from, S value) {
  // Unaligned on purpose.
  std::vector<char> source(1 + sizeof value), out(1 + 8);
  std::memcpy(source.data() + 1, &value, sizeof value);
  convertElements(from, source.data() + 1, TensorType::F64, out.data() + 1, 1);
  double wide;
  std::memcpy(&wide, out.data() + 1, 8);
  EXPECT_EQ(wide, double(value));
  convertElements(from, source.data() + 1, TensorType::F32, out.data() + 1, 1);
  float narrow;
  std::memcpy(&narrow, out.data() + 1, 4);
  EXPECT_EQ(narrow, float(value));
}

TEST(TensorType, ConvertsEveryNumber) {
  expectConverts<double>(TensorType::F64, 1.0 / 3);
  expectConverts<float>(TensorType::F32, -1.5e-40f);
  expectConverts<int64_t>(TensorType::I64, (int64_t{1} << 53) + 1);
  expectConverts<int64_t>(TensorType::I64, 16777217);
  expectConverts<int32_t>(TensorType::I32, -16777217);
  expectConverts<int16_t>(TensorType::I16, -32768);
  expectConverts<int8_t>(TensorType::I8, -128);
  expectConverts<uint64_t>(TensorType::U64, UINT64_MAX);
  expectConverts<uint32_t>(TensorType::U32, UINT32_MAX);
  expectConverts<uint16_t>(TensorType::U16, 65535);
  expectConverts<uint8_t>(TensorType::U8, 255);
  expectConverts<bool>(TensorType::Bool, true);
  EXPECT_TRUE(isConvertible(TensorType::C64, TensorType::C64));
  EXPECT_FALSE(isConvertible(TensorType::C64, TensorType::F32));
  EXPECT_FALSE(isConvertible(TensorType::F8_E4M3, TensorType::F32));
  EXPECT_FALSE(isConvertible(TensorType::F4, TensorType::F4));
  EXPECT_FALSE(isConvertible(TensorType::F32, TensorType::I32));
}

} // namespace
