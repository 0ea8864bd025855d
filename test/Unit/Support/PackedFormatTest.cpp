//===- PackedFormatTest.cpp - Tests of the formats of weights -------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/PackedFormat.h"
#include "kiln/Support/Rng.h"
#include <cmath>
#include <cstring>
#include <gtest/gtest.h>

using namespace kiln::support;

namespace {

/// Returns normally distributed numbers that depend on `seed` only.
std::vector<float> normal(int64_t count, uint64_t seed) {
  std::vector<float> values;
  for (int64_t i = 0; i < count; ++i) {
    auto bits = philox4x32(uint64_t(i), seed);
    double radius =
        std::sqrt(-2 * std::log(1 - uniformFromBits(bits[0], bits[1])));
    values.push_back(
        float(radius * std::cos(2 * M_PI * uniformFromBits(bits[2], bits[3]))));
  }
  return values;
}

struct Encoded {
  std::vector<uint8_t> codes;
  std::vector<float> scales;
};

Encoded encode(const PackedFormat &format, const std::vector<float> &values) {
  int64_t n = int64_t(values.size());
  Encoded encoded;
  encoded.codes.resize(size_t(format.codeBytes(n)));
  encoded.scales.resize(size_t(format.blocks(n) * format.scalesPerBlock()));
  format.encode(values.data(), n, encoded.codes.data(), encoded.scales.data());
  return encoded;
}

std::vector<float> decode(const PackedFormat &format, const Encoded &encoded,
                          int64_t n) {
  std::vector<float> values(size_t(n), NAN);
  format.decode(encoded.codes.data(), encoded.scales.data(), n, values.data());
  return values;
}

const char *const allFormats[] = {"int8", "int4", "kashin:2", "kashin:3",
                                  "kashin:4"};

TEST(PackedFormat, Names) {
  for (const char *name : allFormats) {
    ASSERT_TRUE(PackedFormat::named(name)) << name;
    EXPECT_EQ(PackedFormat::named(name)->name(), name);
  }
  for (const char *name :
       {"", "int", "int3", "int16", "INT8", "kashin", "kashin:", "kashin:1",
        "kashin:5", "kashin:03", "kashin:4 ", "f16"})
    EXPECT_FALSE(PackedFormat::named(name)) << name;
  EXPECT_EQ(PackedFormat::allNames(),
            "int8, int4, kashin:2, kashin:3 or kashin:4");
}

TEST(PackedFormat, Sizes) {
  PackedFormat int8 = *PackedFormat::named("int8"),
               int4 = *PackedFormat::named("int4"),
               kashin = *PackedFormat::named("kashin:3");
  using Shape = std::vector<int64_t>;
  EXPECT_EQ(int8.codeShape({3, 43}), (Shape{3, 43}));
  EXPECT_EQ(int8.scaleShape({3, 43}), Shape{3});
  EXPECT_EQ(int8.bytes(129), 129 + 3 * 4);
  EXPECT_EQ(int4.codeShape({3, 43}), Shape{65});
  EXPECT_EQ(int4.bytes(129), 65 + 3 * 4);
  EXPECT_EQ(kashin.codeShape({3, 43}), (Shape{2, 48}));
  EXPECT_EQ(kashin.scaleShape({3, 43}), (Shape{2, 2}));
  EXPECT_EQ(kashin.bytes(129), 2 * 48 + 2 * 2 * 4);
  // Formats with the same number of bits per weight have the same size if all
  // of their blocks are complete.
  EXPECT_EQ(PackedFormat::named("kashin:4")->bytes(4096), int4.bytes(4096));
}

TEST(PackedFormat, Int8Codes) {
  PackedFormat format = *PackedFormat::named("int8");
  std::vector<float> values(66, 0.f);
  values[0] = -254;  // The largest magnitude of the first block: scale 2.
  values[1] = 3.1f;  // 1.55 is rounded to 2,
  values[2] = -2.9f; // -1.45 to -1,
  values[3] = 5;     // and 2.5 to the even number 2.
  values[63] = 254;
  values[64] = 0.125f; // The second block has two elements.
  Encoded encoded = encode(format, values);
  EXPECT_EQ(encoded.scales, (std::vector<float>{2, 0.125f / 127}));
  auto code = [&](size_t i) { return int(int8_t(encoded.codes[i])); };
  EXPECT_EQ(code(0), -127);
  EXPECT_EQ(code(1), 2);
  EXPECT_EQ(code(2), -1);
  EXPECT_EQ(code(3), 2);
  EXPECT_EQ(code(63), 127);
  EXPECT_EQ(code(64), 127);
  EXPECT_EQ(code(65), 0);
}

TEST(PackedFormat, Int4Codes) {
  PackedFormat format = *PackedFormat::named("int4");
  Encoded encoded = encode(format, {-7, 1.4f, 0.6f, 7, -3});
  EXPECT_EQ(encoded.scales, std::vector<float>{1});
  // The low four bits of byte i have the code of element 2 * i. The high four
  // bits of the last byte are unused and have the code of zero.
  EXPECT_EQ(encoded.codes, (std::vector<uint8_t>{0x91, 0xf9, 0x85}));
  EXPECT_EQ(decode(format, encoded, 5), (std::vector<float>{-7, 1, 1, 7, -3}));
}

TEST(PackedFormat, UniformErrorIsAtMostHalfAStep) {
  std::vector<float> values = normal(1000, 1);
  for (const char *name : {"int8", "int4"}) {
    PackedFormat format = *PackedFormat::named(name);
    Encoded encoded = encode(format, values);
    std::vector<float> decoded = decode(format, encoded, 1000);
    for (size_t i = 0; i < values.size(); ++i)
      EXPECT_LE(std::fabs(decoded[i] - values[i]),
                0.5000001f * encoded.scales[i / 64])
          << name << " " << i;
  }
}

TEST(PackedFormat, BlocksAreIndependent) {
  // The codes of a block do not depend on its neighbours or on the division
  // into calls.
  std::vector<float> values = normal(128 * 3 + 20, 2);
  for (const char *name : allFormats) {
    PackedFormat format = *PackedFormat::named(name);
    Encoded whole = encode(format, values), parts;
    for (int64_t first : {0, 256}) {
      auto begin = values.begin() + first;
      Encoded part =
          encode(format, {begin, first == 0 ? begin + 256 : values.end()});
      parts.codes.insert(parts.codes.end(), part.codes.begin(),
                         part.codes.end());
      parts.scales.insert(parts.scales.end(), part.scales.begin(),
                          part.scales.end());
    }
    EXPECT_EQ(whole.codes, parts.codes) << name;
    EXPECT_EQ(whole.scales, parts.scales) << name;
  }
}

TEST(PackedFormat, ExtremeValues) {
  for (const char *name : allFormats) {
    PackedFormat format = *PackedFormat::named(name);
    std::vector<float> zeros(300, 0.f);
    EXPECT_EQ(decode(format, encode(format, zeros), 300), zeros) << name;
    for (float value : {1e-45f, 1e-38f, 1e37f}) {
      std::vector<float> values(130, 0.f);
      values[5] = value;
      values[129] = -value;
      Encoded encoded = encode(format, values);
      for (float scale : encoded.scales)
        EXPECT_TRUE(std::isfinite(scale) && scale >= 0) << name << value;
      for (float decoded : decode(format, encoded, 130))
        EXPECT_LE(std::fabs(decoded), 2 * value) << name << " " << value;
    }
  }
}

TEST(PackedFormat, AnyBytesCanBeDecoded) {
  for (const char *name : allFormats) {
    PackedFormat format = *PackedFormat::named(name);
    Encoded encoded = encode(format, normal(256, 3));
    for (int byte = 0; byte < 256; ++byte) {
      std::memset(encoded.codes.data(), byte, encoded.codes.size());
      for (float value : decode(format, encoded, 256))
        EXPECT_TRUE(std::isfinite(value)) << name << " " << byte;
    }
  }
}

} // namespace
