//===- UniformCode.cpp - Codes that share a scale -------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/UniformCode.h"

#include <algorithm>
#include <cmath>

float kiln::support::encodeUniform(int bits, const float *values, int64_t count,
                                   uint8_t *codes) {
  const float largest = float((1 << (bits - 1)) - 1);
  float magnitude = 0;
  for (int64_t i = 0; i < count; ++i)
    magnitude = std::max(magnitude, std::fabs(values[i]));
  const float scale = magnitude / largest;
  auto codeOf = [&](int64_t i) {
    // If all values are among the smallest denormals, the scale is rounded to
    // zero.
    if (i >= count || scale == 0)
      return 0;
    return int(
        std::clamp(std::nearbyint(values[i] / scale), -largest, largest));
  };
  if (bits == 8) {
    for (int64_t i = 0; i < count; ++i)
      codes[i] = uint8_t(int8_t(codeOf(i)));
    return scale;
  }
  for (int64_t i = 0; i < count; i += 2)
    codes[i / 2] = uint8_t((codeOf(i) + 8) | (codeOf(i + 1) + 8) << 4);
  return scale;
}

void kiln::support::decodeUniform(int bits, const uint8_t *codes, float scale,
                                  int64_t count, float *values) {
  if (bits == 8) {
    for (int64_t i = 0; i < count; ++i)
      values[i] = scale * float(int8_t(codes[i]));
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    values[i] = scale * float((codes[i / 2] >> (4 * (i % 2)) & 15) - 8);
}
