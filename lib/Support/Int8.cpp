//===- Int8.cpp - Weights of eight bits with outlier inputs ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Int8.h"
#include "kiln/Support/ElementConversion.h"
#include "kiln/Support/UniformCode.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <numeric>

using namespace kiln::support;

/// The largest finite bf16 value.
static constexpr float largestBfloat = 3.3895313892515355e38f;

static int64_t ceilDiv(int64_t value, int64_t divisor) {
  return value / divisor + (value % divisor != 0);
}

static int64_t alignUp(int64_t bytes) { return (bytes + 3) / 4 * 4; }

Int8Layout::Int8Layout(int64_t rows, int64_t columns,
                       const Int8Options &options)
    : rows(rows), columns(columns), block(options.block),
      outliers(options.outliers), inputs(options.inputs),
      elements(rows * columns), blocks(ceilDiv(elements, block)),
      scalesAt(alignUp(elements)),
      outlierIndexesAt(scalesAt + blocks * int64_t(sizeof(float))),
      outlierValuesAt(outlierIndexesAt + outliers * int64_t(sizeof(int32_t))),
      bytes(outlierValuesAt + alignUp(outliers * (elements / inputCount()) *
                                      int64_t(sizeof(uint16_t)))) {
  assert(problem(rows, columns, options).empty());
}

std::string Int8Layout::problem(int64_t rows, int64_t columns,
                                const Int8Options &options) {
  auto [block, outliers, inputs] = options;
  if (block != blockElements && block != columns)
    return "has blocks of " + std::to_string(block) + " elements, expected " +
           std::to_string(blockElements) + " or " + std::to_string(columns) +
           ", the length of a row";
  if (inputs != 0 && inputs != 1)
    return "has inputs in dimension " + std::to_string(inputs) +
           ", expected 0 or 1";
  int64_t most = std::min<int64_t>(inputs == 0 ? rows : columns, INT32_MAX);
  if (outliers < 0 || outliers > most)
    return "has " + std::to_string(outliers) + " outliers, expected 0 to " +
           std::to_string(most) + ", the number of inputs";
  if (outliers == 0 && inputs != 0)
    return "has inputs in dimension 1 and no outliers, expected dimension 0";
  return "";
}

Int8Encoder::Int8Encoder(const Int8Layout &layout, char *bytes)
    : layout_(layout), bytes_(bytes), values_(size_t(layout.block)) {
  if (layout.outliers == 0)
    return;
  magnitudes_.resize(size_t(layout.inputCount()));
  slots_.assign(size_t(layout.inputCount()), -1);
}

void Int8Encoder::survey(const float *values, int64_t count) {
  assert(count >= 0 && surveyed_ + count <= layout_.elements);
  if (layout_.outliers == 0)
    return;
  const int64_t columns = layout_.columns;
  while (count > 0) {
    int64_t row = surveyed_ / columns, column = surveyed_ % columns;
    int64_t part = std::min(count, columns - column);
    if (layout_.inputs == 0) {
      float &magnitude = magnitudes_[size_t(row)];
      for (int64_t i = 0; i < part; ++i)
        magnitude = std::max(magnitude, std::fabs(values[i]));
    } else {
      float *magnitudes = magnitudes_.data() + column;
      for (int64_t i = 0; i < part; ++i)
        magnitudes[i] = std::max(magnitudes[i], std::fabs(values[i]));
    }
    values += part;
    count -= part;
    surveyed_ += part;
  }
}

void Int8Encoder::chooseOutliers() {
  assert(surveyed_ == layout_.elements);
  std::vector<int32_t> order(magnitudes_.size());
  std::iota(order.begin(), order.end(), 0);
  auto chosen = order.begin() + layout_.outliers;
  std::partial_sort(order.begin(), chosen, order.end(),
                    [&](int32_t a, int32_t b) {
                      float x = magnitudes_[size_t(a)];
                      float y = magnitudes_[size_t(b)];
                      return x != y ? x > y : a < b;
                    });
  std::sort(order.begin(), chosen);
  std::memcpy(bytes_ + layout_.outlierIndexesAt, order.data(),
              size_t(layout_.outliers) * sizeof(int32_t));
  for (int64_t slot = 0; slot < layout_.outliers; ++slot)
    slots_[size_t(order[size_t(slot)])] = int32_t(slot);
}

void Int8Encoder::append(const float *values, int64_t count) {
  assert(count >= 0 && appended_ % layout_.block == 0 &&
         appended_ + count <= layout_.elements);
  if (appended_ == 0 && layout_.outliers > 0)
    chooseOutliers();
  while (count > 0) {
    int64_t part = std::min(count, layout_.block);
    std::copy_n(values, part, values_.data());
    encodeBlock(appended_, part);
    values += part;
    count -= part;
    appended_ += part;
  }
}

void Int8Encoder::encodeBlock(int64_t first, int64_t count) {
  auto end = values_.begin() + count;
  auto found = std::find_if_not(values_.begin(), end,
                                [](float x) { return std::isfinite(x); });
  if (found != end) {
    if (!firstNonFinite_)
      firstNonFinite_ = first + (found - values_.begin());
    return;
  }
  auto *codes = reinterpret_cast<uint8_t *>(bytes_ + first);
  auto slotOf = [&](int64_t i) {
    return slots_[size_t(layout_.inputOf(first + i))];
  };
  if (layout_.outliers > 0)
    for (int64_t i = 0; i < count; ++i)
      if (int32_t slot = slotOf(i); slot >= 0) {
        float &value = values_[size_t(i)];
        uint16_t bits =
            doubleToBfloat(std::clamp(value, -largestBfloat, largestBfloat));
        std::memcpy(bytes_ + layout_.outlierValuesAt +
                        layout_.outlierValueOf(first + i, slot) *
                            int64_t(sizeof bits),
                    &bits, sizeof bits);
        value = 0;
      }
  float scale = encodeUniform(8, values_.data(), count, codes);
  std::memcpy(bytes_ + layout_.scalesAt +
                  first / layout_.block * int64_t(sizeof scale),
              &scale, sizeof scale);
  if (layout_.outliers > 0)
    for (int64_t i = 0; i < count; ++i)
      if (slotOf(i) >= 0)
        codes[i] = uint8_t(Int8Layout::outlierCode);
}

bool Int8Encoder::finish() {
  assert(appended_ == layout_.elements);
  std::fill(bytes_ + layout_.elements, bytes_ + layout_.scalesAt, 0);
  int64_t values = layout_.outliers * (layout_.elements / layout_.inputCount());
  std::fill(bytes_ + layout_.outlierValuesAt +
                values * int64_t(sizeof(uint16_t)),
            bytes_ + layout_.bytes, 0);
  return !firstNonFinite_;
}

void kiln::support::decodeInt8(const char *bytes, const Int8Layout &layout,
                               int64_t first, int64_t count, float *to) {
  assert(first >= 0 && count >= 0 && first <= layout.elements - count);
  auto *codes = reinterpret_cast<const uint8_t *>(bytes);
  const int64_t end = first + count;
  for (int64_t i = first; i < end;) {
    int64_t block = i / layout.block;
    int64_t part = std::min(end, (block + 1) * layout.block) - i;
    float scale;
    std::memcpy(&scale, bytes + layout.scalesAt + block * int64_t(sizeof scale),
                sizeof scale);
    decodeUniform(8, codes + i, scale, part, to + (i - first));
    i += part;
  }
  if (layout.outliers == 0)
    return;
  std::vector<int32_t> outliers(size_t(layout.outliers));
  std::memcpy(outliers.data(), bytes + layout.outlierIndexesAt,
              outliers.size() * sizeof(int32_t));
  for (int64_t i = first; i < end; ++i) {
    if (int8_t(codes[i]) != Int8Layout::outlierCode)
      continue;
    auto slot =
        std::lower_bound(outliers.begin(), outliers.end(), layout.inputOf(i)) -
        outliers.begin();
    uint16_t bits;
    std::memcpy(&bits,
                bytes + layout.outlierValuesAt +
                    layout.outlierValueOf(i, slot) * int64_t(sizeof bits),
                sizeof bits);
    to[i - first] = bfloatToFloat(bits);
  }
}
