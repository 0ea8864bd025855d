//===- ElementTypeTest.cpp - Tests of element types and conversions -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Checks the narrow types over all of their values.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/ElementConversion.h"
#include "gtest/gtest.h"
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

using namespace kiln::support;
using namespace kiln;

namespace {

TEST(ElementType, NamesRoundTrip) {
  for (int i = 0; i <= int(ElementType::F4); ++i) {
    auto type = ElementType(i);
    EXPECT_EQ(elementTypeOfFile(infoOf(type).fileName), type);
  }
  EXPECT_EQ(elementTypeOfFile("f32"), std::nullopt);
  EXPECT_EQ(elementTypeOfFile(""), std::nullopt);
  EXPECT_EQ(elementTypeNamed("bf16"), ElementType::BF16);
  EXPECT_EQ(elementTypeNamed("i1"), ElementType::Bool);
  EXPECT_EQ(elementTypeNamed("F32"), std::nullopt);
  EXPECT_EQ(elementTypeNamed(""), std::nullopt);
}

TEST(ElementType, HalfValuesRoundTrip) {
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

// Some integers are so close to the midpoint of two bf16 numbers that rounding
// them to f64 first would give the midpoint, and then a wrong bf16 number.
TEST(ElementType, RoundsIntegersOnce) {
  constexpr int64_t one = int64_t(1) << 60, half = one >> 8;
  const int64_t values[] = {one + half + 1,  one + half, one + 3 * half - 1,
                            -one - half - 1, INT64_MIN,  INT64_MAX};
  const double expected[] = {0x1.02p60,  0x1p60,  0x1.02p60,
                             -0x1.02p60, -0x1p63, 0x1p63};
  for (int i = 0; i < 6; ++i) {
    uint16_t bits = 0;
    convertElements(ElementType::I64, values + i, ElementType::BF16, &bits, 1);
    EXPECT_EQ(double(bfloatToFloat(bits)), expected[i]) << values[i];
  }
  uint64_t large = (uint64_t(1) << 63) + (uint64_t(1) << 55) + 1;
  uint16_t bits = 0;
  convertElements(ElementType::U64, &large, ElementType::BF16, &bits, 1);
  EXPECT_EQ(double(bfloatToFloat(bits)), 0x1.02p63);
}

// Midpoints round to the even neighbour, and all other values to the nearest
// one.
TEST(ElementType, RoundsToNearestEven) {
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

/// Returns the value of a code by the formulas of the OCP specification (OFP8,
/// table 1): a sign, E bits of exponent and M bits of mantissa.
double byteFloat(ElementType type, unsigned code) {
  bool isE4M3 = type == ElementType::F8_E4M3;
  unsigned bits = isE4M3 ? 3 : 2, bias = isE4M3 ? 7 : 15;
  unsigned exponent = (code & 0x7f) >> bits;
  unsigned mantissa = code & ((1u << bits) - 1);
  double sign = code & 0x80 ? -1 : 1;
  if (isE4M3 && (code & 0x7f) == 0x7f)
    return NAN;
  if (!isE4M3 && exponent == 31)
    return mantissa ? double(NAN) : sign * double(INFINITY);
  double fraction = double(mantissa) / double(1u << bits);
  if (exponent == 0)
    return sign * std::pow(2.0, 1.0 - bias) * fraction;
  return sign * std::pow(2.0, double(exponent) - bias) * (1 + fraction);
}

uint8_t toByte(ElementType type, double value) {
  uint8_t code = 0;
  convertElements(ElementType::F64, &value, type, &code, 1);
  return code;
}

TEST(ElementType, ByteFloats) {
  for (ElementType type : {ElementType::F8_E4M3, ElementType::F8_E5M2}) {
    EXPECT_EQ(bytesOf(type, 5), 5);
    for (unsigned code = 0; code < 256; ++code) {
      auto byte = uint8_t(code);
      double value = byteFloat(type, code), found = 0;
      convertElements(type, &byte, ElementType::F64, &found, 1);
      float single = 0;
      convertElements(type, &byte, ElementType::F32, &single, 1);
      if (std::isnan(value)) {
        EXPECT_TRUE(std::isnan(found) && std::isnan(single)) << code;
        EXPECT_TRUE(std::isnan(byteFloat(type, toByte(type, found)))) << code;
        continue;
      }
      EXPECT_EQ(found, value) << code;
      EXPECT_EQ(std::signbit(found), code >= 128) << code;
      EXPECT_EQ(double(single), value) << code;
      if (std::isinf(value))
        continue;
      EXPECT_EQ(toByte(type, value), code);
      EXPECT_EQ(roundTo(type, value), value);
      // A midpoint is rounded to the even neighbor.
      double next = byteFloat(type, code + 1);
      if (!std::isfinite(next) || code + 1 == 128)
        continue;
      double middle = (value + next) / 2;
      double away = std::copysign(1e300, value);
      EXPECT_EQ(toByte(type, middle), code % 2 ? code + 1 : code);
      EXPECT_EQ(toByte(type, std::nextafter(middle, away)), code + 1);
      EXPECT_EQ(toByte(type, std::nextafter(middle, 0.0)), code);
    }
    // Numbers beyond the range saturate to the largest number, 448 or 57344.
    double largest = type == ElementType::F8_E4M3 ? 448 : 57344;
    for (double value :
         {largest, 1.01 * largest, 2 * largest, 1e300, double(INFINITY)}) {
      EXPECT_EQ(roundTo(type, value), largest) << value;
      EXPECT_EQ(roundTo(type, -value), -largest) << value;
    }
    EXPECT_EQ(toByte(type, -0.0), 0x80);
    EXPECT_EQ(toByte(type, 5e-324), 0);
  }
}

template <typename S> void expectConverts(ElementType from, S value) {
  // Unaligned addresses must work.
  std::vector<char> source(1 + sizeof value), out(1 + 8);
  std::memcpy(source.data() + 1, &value, sizeof value);
  convertElements(from, source.data() + 1, ElementType::F64, out.data() + 1, 1);
  double wide;
  std::memcpy(&wide, out.data() + 1, 8);
  EXPECT_EQ(wide, double(value));
  convertElements(from, source.data() + 1, ElementType::F32, out.data() + 1, 1);
  float narrow;
  std::memcpy(&narrow, out.data() + 1, 4);
  EXPECT_EQ(narrow, float(value));
}

TEST(ElementType, ConvertsEveryNumber) {
  expectConverts<double>(ElementType::F64, 1.0 / 3);
  expectConverts<float>(ElementType::F32, -1.5e-40f);
  expectConverts<int64_t>(ElementType::I64, (int64_t{1} << 53) + 1);
  expectConverts<int64_t>(ElementType::I64, 16777217);
  expectConverts<int32_t>(ElementType::I32, -16777217);
  expectConverts<int16_t>(ElementType::I16, -32768);
  expectConverts<int8_t>(ElementType::I8, -128);
  expectConverts<uint64_t>(ElementType::U64, UINT64_MAX);
  expectConverts<uint32_t>(ElementType::U32, UINT32_MAX);
  expectConverts<uint16_t>(ElementType::U16, 65535);
  expectConverts<uint8_t>(ElementType::U8, 255);
  expectConverts<bool>(ElementType::Bool, true);
  EXPECT_TRUE(isConvertible(ElementType::C64, ElementType::C64));
  EXPECT_FALSE(isConvertible(ElementType::C64, ElementType::F32));
  EXPECT_FALSE(isConvertible(ElementType::F8_E8M0, ElementType::F32));
  EXPECT_FALSE(isConvertible(ElementType::F4, ElementType::F4));
  EXPECT_FALSE(isConvertible(ElementType::F32, ElementType::I32));
}

} // namespace
