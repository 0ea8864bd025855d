//===- Dynamic8.cpp - Dynamic 8-bit codes of blocks of numbers ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Dynamic8.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <limits>

using namespace kiln::support;

namespace {

constexpr std::size_t signedZero = dynamicZero(DynamicMap::Signed);

/// Returns the values of a map. For each i from 0 to 6, the interval from 0.1
/// to 1 is divided into 2^i parts of equal length, or into 2^(i+1) parts for
/// the unsigned map. The map contains 0, 1 and, for each part, the midpoint
/// times 10^(i - 6). The signed map also contains the negatives of these
/// products. As in PyTorch's linspace, the ends of the parts are computed from
/// the nearer end of the interval with a fused multiply-add in f32. Here, f64
/// replaces the fused operation: it holds the product and the sum exactly, and
/// only the result is rounded to f32.
std::array<float, 256> makeValues(DynamicMap map) {
  constexpr float powers[] = {1e-6f, 1e-5f, 1e-4f, 1e-3f, 1e-2f, 1e-1f, 1.0f};
  constexpr float low = 0.1f, high = 1.0f;
  bool isSigned = map == DynamicMap::Signed;
  std::size_t zeroAt = dynamicZero(map);
  std::array<float, 256> values;
  std::size_t next = 1;
  for (int i = 0; i < 7; ++i) {
    int parts = 1 << (isSigned ? i : i + 1);
    float step = (high - low) / float(parts);
    auto end = [&](int j) {
      return j < (parts + 1) / 2
                 ? float(double(low) + double(step) * j)
                 : float(double(high) - double(step) * (parts - j));
    };
    for (int j = 0; j < parts; ++j, ++next) {
      float value = (end(j) + end(j + 1)) / 2 * powers[i];
      values[zeroAt + next] = value;
      if (isSigned)
        values[zeroAt - next] = -value;
    }
  }
  values[zeroAt] = 0;
  values.back() = 1;
  return values;
}

using Borders = std::array<float, 255>;

Borders makeBorders(DynamicMap map) {
  const std::array<float, 256> &values = dynamicValues(map);
  Borders borders;
  for (std::size_t i = 0; i < borders.size(); ++i)
    borders[i] = (values[i] + values[i + 1]) / 2;
  return borders;
}

const Borders &bordersOf(DynamicMap map) {
  static const Borders borders[] = {makeBorders(DynamicMap::Signed),
                                    makeBorders(DynamicMap::Unsigned)};
  return borders[int(map)];
}

int32_t bitsOfFloat(float value) {
  int32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  return bits;
}

/// The bucket of a float is its bit pattern shifted right by `shift`. The shift
/// is small enough that a bucket contains at most one border. Relative to their
/// size, the values just below 1 are the closest: their distance is 0.014 in
/// the signed map and 0.007 in the unsigned map. A bucket there is narrower:
/// its width is 2^(shift - 24), which is 0.0078 or 0.0039, respectively.
DynamicSearch makeSearch(DynamicMap map) {
  bool isSigned = map == DynamicMap::Signed;
  DynamicSearch search;
  search.shift = isSigned ? 17 : 16;
  const Borders &borders = bordersOf(map);
  const float *border = borders.data() + (isSigned ? signedZero : 0);
  const float *end = borders.data() + borders.size();
  // The table begins with the bucket before that of the first border, and ends
  // with the bucket whose smallest float is 1.
  search.first = (bitsOfFloat(*border) >> search.shift) - 1;
  int32_t last = bitsOfFloat(1.0f) >> search.shift, width = 1 << search.shift;
  int32_t below = 0;
  for (int32_t bucket = search.first; bucket <= last; ++bucket) {
    int32_t start = bucket << search.shift, step = width;
    int32_t inside = 0;
    for (; border != end && bitsOfFloat(*border) < start + width; ++border) {
      step = bitsOfFloat(*border) - start + 1;
      ++inside;
    }
    assert(inside <= 1 && "a bucket contains at most one border");
    search.entries.push_back(below | step << 8);
    below += inside;
  }
  assert(border == end);
  return search;
}

} // namespace

const std::array<float, 256> &kiln::support::dynamicValues(DynamicMap map) {
  static const std::array<float, 256> values[] = {
      makeValues(DynamicMap::Signed), makeValues(DynamicMap::Unsigned)};
  return values[int(map)];
}

uint8_t kiln::support::encodeDynamic(DynamicMap map, float x) {
  const Borders &borders = bordersOf(map);
  return uint8_t(std::lower_bound(borders.begin(), borders.end(), x) -
                 borders.begin());
}

const DynamicSearch &kiln::support::dynamicSearch(DynamicMap map) {
  static const DynamicSearch searches[] = {makeSearch(DynamicMap::Signed),
                                           makeSearch(DynamicMap::Unsigned)};
  return searches[int(map)];
}

float kiln::support::encodeDynamicBlock(DynamicMap map, const float *values,
                                        int64_t count, uint8_t *codes) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  float scale = 0;
  for (int64_t i = 0; i < count; ++i) {
    float magnitude = std::fabs(values[i]);
    scale = std::max(scale, magnitude < infinity ? magnitude : infinity);
  }
  float inverse = 1 / std::max(scale, leastDynamicScale);
  for (int64_t i = 0; i < count; ++i)
    codes[i] = encodeDynamic(map, values[i] * inverse);
  return scale;
}
