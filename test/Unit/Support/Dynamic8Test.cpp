//===- Dynamic8Test.cpp - Tests of dynamic 8-bit codes --------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The expectations are results of bitsandbytes 0.50.2 with PyTorch 2.15.0,
// printed by Inputs/make_dynamic8.py. Hashes are 64-bit FNV-1a.
//
//===----------------------------------------------------------------------===//

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

enum class Kind { Normal, Wide, Decayed, Zeros, Borders, Tiny };

struct Expectation {
  DynamicMap map;
  Kind kind;
  int64_t blocks;
  uint64_t seed;
  uint64_t codes, scales, decoded; ///< Hashes.
};

const Expectation expectations[] = {
    {DynamicMap::Signed, Kind::Normal, 64, 1, 0x6e7a37c417820ced,
     0xca68fb76518ef234, 0x6055b8466ec48c62},
    {DynamicMap::Signed, Kind::Wide, 64, 2, 0x57825b1e329b5290,
     0x8ff10b8ef1e99b90, 0xf8641f42270dbd59},
    {DynamicMap::Signed, Kind::Decayed, 64, 3, 0x8ba23cb8e75616f6,
     0xfc76369f36c3361f, 0x67abce3b101b7aba},
    {DynamicMap::Signed, Kind::Zeros, 16, 4, 0x81b3c790137bc0aa,
     0x135b5f2010c63344, 0x6e8328d342bd7e4a},
    {DynamicMap::Signed, Kind::Borders, 3, 5, 0x0e2b871a133c35da,
     0x8eec422e25920948, 0xe4e10a0d2661da9c},
    {DynamicMap::Signed, Kind::Tiny, 16, 6, 0x96d82595ec48a696,
     0x7f12d4c9660f0515, 0x1254b0fcd5226676},
    {DynamicMap::Unsigned, Kind::Normal, 64, 1, 0x2ebe85848e25420d,
     0xca68fb76518ef234, 0x85b2a0c423ee28a9},
    {DynamicMap::Unsigned, Kind::Wide, 64, 2, 0x66fc32f1946507ed,
     0x8ff10b8ef1e99b90, 0x8c63c21f78b78577},
    {DynamicMap::Unsigned, Kind::Decayed, 64, 3, 0xdfa4bc014859ddd6,
     0xfc76369f36c3361f, 0x0e2fccbc12a5f6ad},
    {DynamicMap::Unsigned, Kind::Zeros, 16, 4, 0x17f030c941505ca9,
     0x135b5f2010c63344, 0x29a479501b146a2b},
    {DynamicMap::Unsigned, Kind::Borders, 3, 5, 0xea127960a12e8dda,
     0x8eec422e25920948, 0xd717b2b4aede6f7b},
    {DynamicMap::Unsigned, Kind::Tiny, 16, 6, 0x1689a7a92e11b11e,
     0x7f12d4c9660f0515, 0xd3c438901dfeda34},
};

uint64_t fnv(const void *data, size_t size) {
  uint64_t hash = 0xcbf29ce484222325;
  for (size_t i = 0; i < size; ++i)
    hash = (hash ^ static_cast<const unsigned char *>(data)[i]) * 0x100000001b3;
  return hash;
}

template <typename T> uint64_t fnv(const std::vector<T> &values) {
  return fnv(values.data(), values.size() * sizeof(T));
}

float normal(uint64_t bits) {
  uint64_t part = 0xfffff;
  auto sum = int64_t((bits & part) + (bits >> 20 & part) + (bits >> 40 & part));
  return float(sum - 3 * (1 << 19)) * 0x1p-26f;
}

float border(DynamicMap map, int64_t i) {
  return (dynamicValues(map)[i] + dynamicValues(map)[i + 1]) / 2;
}

float moved(float value, int32_t steps) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  bits += steps;
  std::memcpy(&value, &bits, sizeof(bits));
  return value;
}

std::vector<float> makeElements(const Expectation &of) {
  std::vector<float> values;
  for (int64_t i = 0; i < of.blocks * dynamicBlock; ++i) {
    int64_t block = i / dynamicBlock, place = i % dynamicBlock;
    uint64_t bits = splitmix64((of.seed << 32) + uint64_t(i));
    float value = normal(bits);
    switch (of.kind) {
    case Kind::Normal:
      break;
    case Kind::Wide:
      value *= std::exp2(-float(bits >> 59));
      break;
    case Kind::Decayed:
      value = value * value * 0x1p-40f;
      break;
    case Kind::Zeros:
      value = block % 5 == 3 ? 0 : value;
      break;
    case Kind::Tiny:
      value *= 0x1p-110f;
      break;
    case Kind::Borders:
      value =
          place == 0 ? 1 : moved(border(of.map, place - 1), int32_t(block) - 1);
      break;
    }
    values.push_back(of.map == DynamicMap::Signed ? value : std::fabs(value));
  }
  return values;
}

TEST(Dynamic8, Values) {
  EXPECT_EQ(fnv(dynamicValues(DynamicMap::Signed).data(), 1024),
            0xd677f22a96665bc4u);
  EXPECT_EQ(fnv(dynamicValues(DynamicMap::Unsigned).data(), 1024),
            0x43811b16730a873eu);
  for (DynamicMap map : {DynamicMap::Signed, DynamicMap::Unsigned}) {
    EXPECT_EQ(dynamicValues(map)[dynamicZero(map)], 0);
    for (int code = 0; code < 256; ++code)
      EXPECT_EQ(encodeDynamic(map, dynamicValues(map)[size_t(code)]), code);
  }
}

TEST(Dynamic8, BitsOfBitsandbytes) {
  for (const Expectation &expected : expectations) {
    SCOPED_TRACE(testing::Message()
                 << "map " << int(expected.map) << ", seed " << expected.seed);
    std::vector<float> values = makeElements(expected), scales, decoded;
    std::vector<uint8_t> codes(values.size());
    for (size_t at = 0; at < values.size(); at += dynamicBlock)
      scales.push_back(encodeDynamicBlock(expected.map, &values[at],
                                          dynamicBlock, &codes[at]));
    for (size_t i = 0; i < codes.size(); ++i)
      decoded.push_back(dynamicValues(expected.map)[codes[i]] *
                        scales[i / dynamicBlock]);
    EXPECT_EQ(fnv(codes), expected.codes);
    EXPECT_EQ(fnv(scales), expected.scales);
    EXPECT_EQ(fnv(decoded), expected.decoded);
  }
}

TEST(Dynamic8, ABlockThatIsNotFiniteDecodesToNoFiniteNumber) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  for (DynamicMap map : {DynamicMap::Signed, DynamicMap::Unsigned})
    for (float bad : {infinity, -infinity, std::nanf("")}) {
      std::vector<float> values(dynamicBlock, 0.5f);
      values[17] = bad;
      std::vector<uint8_t> codes(dynamicBlock);
      float scale =
          encodeDynamicBlock(map, values.data(), dynamicBlock, codes.data());
      EXPECT_EQ(scale, infinity);
      for (uint8_t code : codes)
        EXPECT_FALSE(std::isfinite(dynamicValues(map)[code] * scale));
    }
}

/// Returns the code of x by the formulas in the comment on DynamicSearch.
int codeByTable(DynamicMap map, float x) {
  const DynamicSearch &search = dynamicSearch(map);
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  auto below = [&](uint32_t number) {
    auto last = int64_t(search.entries.size()) - 1;
    int64_t bucket = int64_t(number >> search.shift) - search.first;
    int32_t entry =
        search.entries[size_t(std::min(std::max<int64_t>(bucket, 0), last))];
    auto rest = int32_t(number & ((1u << search.shift) - 1));
    return (entry & 255) + (rest >= entry >> 8 ? 1 : 0);
  };
  bool isNegative = bits >> 31;
  if (map == DynamicMap::Unsigned)
    return below(isNegative ? 0 : bits);
  if (!isNegative)
    return 127 + below(bits);
  return 127 - std::min(127, below((bits & INT32_MAX) + 1));
}

TEST(Dynamic8, TheTableGivesTheCodesOfTheSearch) {
  for (DynamicMap map : {DynamicMap::Signed, DynamicMap::Unsigned}) {
    auto check = [&](float x) {
      ASSERT_EQ(codeByTable(map, x), encodeDynamic(map, x)) << x;
    };
    for (int64_t i = 0; i < 255; ++i)
      for (int32_t steps = -2; steps <= 2; ++steps)
        check(moved(border(map, i), steps));
    for (uint64_t bits = 0; bits < uint64_t(1) << 32; bits += 997) {
      auto low = uint32_t(bits);
      float x;
      std::memcpy(&x, &low, sizeof(x));
      if (!std::isnan(x))
        check(x);
    }
  }
}

} // namespace
