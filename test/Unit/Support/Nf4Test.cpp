//===- Nf4Test.cpp - Tests of weights of four bits ------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The expectations are results of bitsandbytes 0.50.2 with PyTorch 2.15.0 on a
// CPU with AVX-512, printed by Inputs/make_nf4.py. Hashes are 64-bit FNV-1a.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Nf4.h"
#include "kiln/Support/Dynamic8.h"
#include "kiln/Support/Rng.h"
#include "gtest/gtest.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

using namespace kiln::support;

namespace {

enum class Kind { Normal, Bfloat, Wide, Zeros, Equal, Denormal, Borders };

struct Expectation {
  int64_t count;
  Kind kind;
  uint64_t seed;
  uint64_t codes;
  /// Hash of the scale codes followed by the nested scales.
  uint64_t scales;
  float offset;
  /// Hash of the decoded elements, without the last element if `count` is odd.
  uint64_t decoded;
};

const Expectation expectations[] = {
    {1, Kind::Normal, 1, 0xaf63ba4c8601b2c6, 0xe4bc4fd9252be94f, 0x1.028360p-6f,
     0xcbf29ce484222325},
    {2, Kind::Normal, 2, 0xaf645d4c8602c7bf, 0xe4bc4fd9252be94f, 0x1.c9fb60p-7f,
     0xf64d4b0d8d86b4ec},
    {63, Kind::Normal, 3, 0x7fe7896b67335703, 0xe4bc4fd9252be94f,
     0x1.498220p-6f, 0x12ecceb077c94e64},
    {64, Kind::Normal, 4, 0xcb83b7c905af980a, 0xe4bc4fd9252be94f,
     0x1.475020p-6f, 0x9af775985a13fea4},
    {65, Kind::Normal, 5, 0x18ba0afb1043cf88, 0x455a72c35faa0eff,
     0x1.de0c70p-7f, 0xa48e4c67b9b95069},
    {240, Kind::Normal, 6, 0x43c86359810b68b7, 0x3c3f5f2226406015,
     0x1.3f2af8p-6f, 0x7ef1bb30f4ef732f},
    {127, Kind::Normal, 7, 0xf32d10d4ed565094, 0x873b32fc3cdd6974,
     0x1.3b9750p-6f, 0x3104c4bfe641dcc7},
    {10000, Kind::Normal, 8, 0x36fd99305a94244d, 0xaa9db68746f2649c,
     0x1.2e128cp-6f, 0x5ef66c90379782da},
    {16320, Kind::Normal, 9, 0x5e9d50acdb1a3bce, 0x377b257471d57032,
     0x1.2ce180p-6f, 0x882dc71bed446feb},
    {16384, Kind::Normal, 10, 0xc50d353977358de3, 0xa1868a4cb171b459,
     0x1.2e54ecp-6f, 0x74e8cf649982654f},
    {16448, Kind::Normal, 11, 0x8f064dd36028d444, 0x7ca1fed39f776479,
     0x1.30310ep-6f, 0x55c3d98794981dd6},
    {16385, Kind::Normal, 12, 0xb41d32d3f12b1476, 0x00fec3bb3bd7cc88,
     0x1.2c666ep-6f, 0x06fe450d207053f7},
    {41481, Kind::Normal, 13, 0x1ebd1481373a7a77, 0xd7b1b21f3b25243a,
     0x1.2f62c0p-6f, 0x5e786f3d0c02de1c},
    {262144, Kind::Normal, 14, 0x01138fbfd3169189, 0xdd72223de583ca27,
     0x1.2e75e4p-6f, 0x17e5554c65149ac1},
    {65, Kind::Bfloat, 15, 0xe9bda11d43c6af02, 0xce0a7bfc65668f8d,
     0x1.fd0000p-7f, 0x458c8433bf559120},
    {76800, Kind::Bfloat, 16, 0x639b89571c122863, 0xfba4226844082388,
     0x1.2a9e82p-6f, 0x266d3b5ff25ab9f9},
    {77100, Kind::Wide, 17, 0xf1d397c60f732853, 0xb542a32968067a15,
     0x1.6e4e2ap-7f, 0x3129ad82e815cb5f},
    {24576, Kind::Wide, 18, 0x9b215f3c0f4eaf1c, 0xcc9f8c96690669bd,
     0x1.720b3ep-7f, 0xec7881b57c53a8e3},
    {31, Kind::Zeros, 19, 0x30dc92496f18c955, 0xe4bc4fd9252be94f,
     0x1.b38fb8p-127f, 0xde9fa0da6fc22a85},
    {25641, Kind::Zeros, 20, 0x5b7b6b086892258c, 0x07125a7e5e7d8435,
     0x1.e723d0p-7f, 0xd0dff7daeb0b3c3d},
    {135, Kind::Equal, 21, 0x5dde54ba1058bb80, 0x778b1a14b6876aa7,
     0x1.800000p-1f, 0xee3bc9afed834c15},
    {200, Kind::Denormal, 22, 0xc00dee6bff22ea85, 0x14105ff859b528a4,
     0x1.21914cp-126f, 0x32b999e9b9281b6f},
    {19057, Kind::Denormal, 23, 0x36e8d179c332a653, 0x144b850a50aad2de,
     0x1.2dd40ap-126f, 0x101a052088765418},
    {19200, Kind::Borders, 24, 0xc3809d2de3d92645, 0x0f3cd400e3ef0f46,
     0x1.cfdc56p-8f, 0x2f9ccdbb48476543},
    {61, Kind::Borders, 25, 0x86ebce71b5819651, 0xe4bc4fd9252be94f,
     0x1.884980p-7f, 0x1805e1be130f5156},
    {1281, Kind::Borders, 26, 0x9bb3539ff23fb1ce, 0x686be63583401c58,
     0x1.174064p-7f, 0x80baa63687432b4c},
};

uint64_t fnv(const void *data, int64_t bytes) {
  uint64_t hash = 0xcbf29ce484222325;
  for (int64_t i = 0; i < bytes; ++i)
    hash = (hash ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3;
  return hash;
}

template <typename To, typename From> To bitsAs(From from) {
  static_assert(sizeof(To) == sizeof(From));
  To to;
  std::memcpy(&to, &from, sizeof to);
  return to;
}

std::array<float, 15> middles() {
  std::array<float, 15> middles;
  for (std::size_t i = 0; i < 15; ++i)
    middles[i] = (nf4Values[i] + nf4Values[i + 1]) / 2;
  return middles;
}

/// Maps random bits to an approximately normally distributed number.
float normal(uint64_t bits) {
  uint64_t terms =
      (bits & 0xfffff) + (bits >> 20 & 0xfffff) + (bits >> 40 & 0xfffff);
  return float(int64_t(terms) - 3 * (1 << 19)) * 0x1p-26f;
}

/// Returns an element of Kind::Borders. The first element of a block is the
/// magnitude of the block, and the last three elements are 0. Every other
/// element is (the middle of two adjacent NF4 values) * magnitude, or a float
/// next to this product.
float border(uint64_t index, uint64_t seed) {
  float magnitude =
      std::fabs(normal(splitmix64((seed << 32) + index / 64))) + 0x1p-10f;
  int place = int(index % 64);
  if (place == 0)
    return magnitude;
  if (place > 60)
    return 0;
  float middle = middles()[std::size_t((place - 1) % 15)] * magnitude;
  return bitsAs<float>(bitsAs<int32_t>(middle) + (place - 1) / 15 - 1);
}

std::vector<float> makeElements(Kind kind, int64_t count, uint64_t seed) {
  std::vector<float> elements;
  for (uint64_t i = 0; i < uint64_t(count); ++i) {
    uint64_t bits = splitmix64((seed << 32) + i), block = i / 64;
    float value = normal(bits);
    switch (kind) {
    case Kind::Normal:
      break;
    case Kind::Bfloat:
      value = bitsAs<float>(bitsAs<uint32_t>(value) & 0xffff0000);
      break;
    case Kind::Wide:
      value = std::ldexp(value, -int(bits >> 60));
      break;
    case Kind::Zeros:
      if (block % 5 == 3 || block == uint64_t(count - 1) / 64)
        value = 0;
      break;
    case Kind::Equal:
      value = bits >> 63 ? -0.75f : 0.75f;
      break;
    case Kind::Denormal:
      value *= 0x1p-120f;
      break;
    case Kind::Borders:
      value = border(i, seed);
      break;
    }
    elements.push_back(value);
  }
  return elements;
}

/// Encodes `elements` in one chunk with the given offset or, if `offset` is
/// NaN, with the mean as the offset. Returns the bytes, and checks that the
/// bytes around them are unchanged.
std::string encode(const std::vector<float> &elements, float offset = NAN) {
  Nf4Layout layout(int64_t(elements.size()));
  std::string bytes(std::size_t(layout.bytes) + 2, '\x5a');
  Nf4Encoder encoder(layout, bytes.data() + 1);
  encoder.append(elements.data(), layout.elements);
  EXPECT_TRUE(std::isnan(offset) ? encoder.finish() : encoder.finish(offset));
  EXPECT_EQ(encoder.firstNonFinite(), std::nullopt);
  EXPECT_EQ(bytes.front(), '\x5a');
  EXPECT_EQ(bytes.back(), '\x5a');
  return bytes.substr(1, std::size_t(layout.bytes));
}

std::vector<float> decode(const std::string &bytes, const Nf4Layout &layout) {
  std::vector<float> elements(std::size_t(layout.elements));
  decodeNf4(bytes.data(), layout, 0, layout.elements, elements.data());
  return elements;
}

float offsetOf(const std::string &bytes, const Nf4Layout &layout) {
  float offset;
  std::memcpy(&offset, bytes.data() + layout.offsetAt, sizeof offset);
  return offset;
}

std::string hex(const std::string &bytes) {
  std::string text;
  for (unsigned char byte : bytes) {
    text += "0123456789abcdef"[byte >> 4];
    text += "0123456789abcdef"[byte & 15];
  }
  return text;
}

TEST(Nf4, Values) {
  std::array<float, 15> between = middles();
  EXPECT_EQ(fnv(between.data(), sizeof between), 0x6b792fed41349862u);
  EXPECT_EQ(fnv(dynamicValues(DynamicMap::Signed).data(),
                sizeof dynamicValues(DynamicMap::Signed)),
            0xd677f22a96665bc4u);
  EXPECT_EQ(nf4Values[7], 0);
  EXPECT_EQ(dynamicValues(DynamicMap::Signed)[127], 0);
}

TEST(Nf4, Layout) {
  Nf4Layout empty(0);
  EXPECT_EQ(empty.blocks, 0);
  EXPECT_EQ(empty.groups, 0);
  EXPECT_EQ(empty.bytes, 4);

  Nf4Layout whole(256 * 64);
  EXPECT_EQ(whole.blocks, 256);
  EXPECT_EQ(whole.groups, 1);
  EXPECT_EQ(whole.scaleCodesAt, 8192);
  EXPECT_EQ(whole.nestedScalesAt, 8192 + 256);
  EXPECT_EQ(whole.offsetAt, 8192 + 256 + 4);
  EXPECT_EQ(whole.bytes, 8192 + 256 + 4 + 4);

  Nf4Layout more(256 * 64 + 1);
  EXPECT_EQ(more.blocks, 257);
  EXPECT_EQ(more.groups, 2);
  EXPECT_EQ(more.scaleCodesAt, 8196);
  EXPECT_EQ(more.nestedScalesAt, 8196 + 260);
  EXPECT_EQ(more.bytes, 8196 + 260 + 8 + 4);
}

TEST(Nf4, Bytes) {
  // Codes, scale codes, nested scale and offset of 67 elements.
  EXPECT_EQ(hex(encode(makeElements(Kind::Normal, 67, 99))),
            "373c2ad7e8919b08e16a5b8371af5d26"
            "d74cecd52f168a9252c9d545d8ea71071f47"
            "0000"
            "ff000000"
            "002f9e3b"
            "00f8403c");
}

TEST(Nf4, BitsOfBitsandbytes) {
  for (const Expectation &expected : expectations) {
    SCOPED_TRACE("seed " + std::to_string(expected.seed));
    Nf4Layout layout(expected.count);
    std::string bytes =
        encode(makeElements(expected.kind, expected.count, expected.seed),
               expected.offset);
    EXPECT_EQ(fnv(bytes.data(), (expected.count + 1) / 2), expected.codes);
    std::string scales =
        bytes.substr(std::size_t(layout.scaleCodesAt),
                     std::size_t(layout.blocks)) +
        bytes.substr(std::size_t(layout.nestedScalesAt),
                     std::size_t(layout.offsetAt - layout.nestedScalesAt));
    EXPECT_EQ(fnv(scales.data(), int64_t(scales.size())), expected.scales);
    EXPECT_EQ(bitsAs<uint32_t>(offsetOf(bytes, layout)),
              bitsAs<uint32_t>(expected.offset));
    EXPECT_EQ(fnv(decode(bytes, layout).data(), expected.count / 2 * 2 * 4),
              expected.decoded);
  }
}

TEST(Nf4, OffsetIsTheMean) {
  for (const Expectation &expected : expectations) {
    SCOPED_TRACE("seed " + std::to_string(expected.seed));
    Nf4Layout layout(expected.count);
    float offset = offsetOf(
        encode(makeElements(expected.kind, expected.count, expected.seed)),
        layout);
    // The mean that bitsandbytes computes is less exact.
    EXPECT_LE(
        std::abs(bitsAs<int32_t>(offset) - bitsAs<int32_t>(expected.offset)),
        3);
  }
}

TEST(Nf4, BordersHaveTheLowerCode) {
  std::vector<float> elements;
  for (float middle : middles())
    for (float towards : {-2.0f, middle, 2.0f})
      elements.push_back(std::nextafter(middle, towards));
  elements.resize(64);
  elements.back() = 1;
  std::string bytes = encode(elements);
  for (int i = 0; i < 45; ++i) {
    unsigned char pair = static_cast<unsigned char>(bytes[std::size_t(i / 2)]);
    EXPECT_EQ(i % 2 == 0 ? pair >> 4 : pair & 15, i / 3 + (i % 3 == 2)) << i;
  }
}

TEST(Nf4, ZerosStayZeros) {
  for (int64_t count : {0, 1, 64, 65, 1000}) {
    Nf4Layout layout(count);
    std::string bytes = encode(std::vector<float>(std::size_t(count)));
    for (int64_t i = 0; i < (count + 1) / 2; ++i)
      ASSERT_EQ(bytes[std::size_t(i)], 0x77);
    for (float value : decode(bytes, layout))
      ASSERT_EQ(value, 0);
  }
}

TEST(Nf4, ChunksDoNotMatter) {
  int64_t count = 20001;
  std::vector<float> elements = makeElements(Kind::Normal, count, 7);
  std::string whole = encode(elements);
  Nf4Layout layout(count);
  for (int64_t chunk : {1, 63, 64, 65, 1000, 4096}) {
    std::string bytes(std::size_t(layout.bytes), '\x5a');
    Nf4Encoder encoder(layout, bytes.data());
    for (int64_t i = 0; i < count; i += chunk)
      encoder.append(elements.data() + i, std::min(chunk, count - i));
    ASSERT_TRUE(encoder.finish());
    EXPECT_EQ(bytes, whole) << chunk;
  }
}

TEST(Nf4, DecodesAnyRange) {
  Nf4Layout layout(331);
  std::string bytes = encode(makeElements(Kind::Normal, layout.elements, 5));
  std::vector<float> all = decode(bytes, layout);
  std::string unaligned = "." + bytes;
  for (int64_t first = 0; first <= layout.elements; ++first)
    for (int64_t count : {0, 1, 2, 3, 63, 64, 65, 130}) {
      count = std::min(count, layout.elements - first);
      std::vector<float> part(std::size_t(count) + 1, -5.0f);
      decodeNf4(unaligned.data() + 1, layout, first, count, part.data());
      EXPECT_EQ(part.back(), -5.0f);
      part.pop_back();
      EXPECT_EQ(part, std::vector<float>(all.begin() + first,
                                         all.begin() + first + count));
    }
}

TEST(Nf4, ReportsNonFiniteElements) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (float bad : {infinity, -infinity, std::nanf(""), -std::nanf("")})
    for (int64_t at : {0, 63, 100, 299}) {
      std::vector<float> elements = makeElements(Kind::Normal, 300, 3);
      elements[std::size_t(at)] = bad;
      elements.back() = bad;
      Nf4Layout layout(300);
      std::string bytes(std::size_t(layout.bytes), '\x5a');
      Nf4Encoder encoder(layout, bytes.data());
      encoder.append(elements.data(), 300);
      EXPECT_FALSE(encoder.finish());
      EXPECT_EQ(encoder.firstNonFinite(), at);
      std::vector<float> decoded = decode(bytes, layout);
      for (int64_t i = 0; i < 300; ++i) {
        bool isZero = i / 64 == at / 64 || i / 64 == 299 / 64;
        float wanted = isZero ? 0.0f : elements[std::size_t(i)];
        ASSERT_NEAR(decoded[std::size_t(i)], wanted, isZero ? 0 : 0.005) << i;
      }
    }
}

TEST(Nf4, LargestFloats) {
  constexpr float largest = std::numeric_limits<float>::max();
  std::vector<float> elements(130, largest);
  elements[5] = -largest;
  std::vector<float> decoded = decode(encode(elements), Nf4Layout(130));
  EXPECT_EQ(decoded, elements);
}

TEST(Nf4, DecodesAnyBytes) {
  Nf4Layout layout(129);
  for (int byte : {0, 0xff, 0x80}) {
    std::string bytes(std::size_t(layout.bytes), char(byte));
    EXPECT_EQ(decode(bytes, layout).size(), 129u);
  }
}

} // namespace
