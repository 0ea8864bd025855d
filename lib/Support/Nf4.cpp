//===- Nf4.cpp - Weights of four bits with quantized scales ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Repeats the operations of the library bitsandbytes, in f32. Loops over the
// elements of a block have no branches, so that they are vectorized.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/Nf4.h"

#include "kiln/Support/Dynamic8.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>

using namespace kiln::support;

const std::array<float, 16> kiln::support::nf4Values = {
    -1.0f,
    -0.6961928009986877f,
    -0.5250730514526367f,
    -0.39491748809814453f,
    -0.28444138169288635f,
    -0.18477343022823334f,
    -0.09105003625154495f,
    0.0f,
    0.07958029955625534f,
    0.16093020141124725f,
    0.24611230194568634f,
    0.33791524171829224f,
    0.44070982933044434f,
    0.5626170039176941f,
    0.7229568362236023f,
    1.0f,
};

namespace {

constexpr int64_t blockElements = Nf4Layout::blockElements;
constexpr int64_t groupBlocks = Nf4Layout::groupBlocks;

/// The smallest divisor that bitsandbytes uses. It is a denormal number.
constexpr float leastMagnitude = 1e-38f;

int64_t ceilDiv(int64_t value, int64_t divisor) {
  return value / divisor + (value % divisor != 0);
}

int64_t alignUp(int64_t bytes) { return (bytes + 3) / 4 * 4; }

template <std::size_t N>
std::array<float, N - 1> middlesOf(const std::array<float, N> &values) {
  std::array<float, N - 1> middles;
  for (std::size_t i = 0; i + 1 < N; ++i)
    middles[i] = (values[i] + values[i + 1]) / 2;
  return middles;
}

constexpr int lastScaleIndex = 65535;

/// Returns the index, among 65536 equidistant values in [-1, 1], of the value
/// nearest to `value`.
int scaleIndexOf(float value) {
  // `value` is a difference times the inverse of the largest difference in its
  // group of blocks. If the largest difference is zero or a small denormal, the
  // inverse is infinite, and its product with zero is NaN.
  if (std::isnan(value))
    return 0;
  float share = (std::clamp(value, -1.0f, 1.0f) + 1.0f) * 0.5f;
  // bitsandbytes uses a fused multiply-add, which gives the same indices.
  return int(share * float(lastScaleIndex) + 0.5f);
}

/// Returns the scale code of each of the 65536 equidistant values of
/// scaleIndexOf().
std::vector<uint8_t> makeScaleCodes() {
  std::array<float, 255> middles = middlesOf(dynamicValues(DynamicMap::Signed));
  std::vector<uint8_t> codes(lastScaleIndex + 1);
  std::size_t code = 0;
  for (int i = 0; i <= lastScaleIndex; ++i) {
    float value = -1.0f + 2.0f * float(i) / float(lastScaleIndex);
    while (code < middles.size() && middles[code] < value)
      ++code;
    codes[std::size_t(i)] = uint8_t(code);
  }
  return codes;
}

float loadFloat(const char *from) {
  float value;
  std::memcpy(&value, from, sizeof value);
  return value;
}

/// Returns the largest magnitude in the block, or infinity or NaN if the block
/// contains one. The function compares bit patterns without the sign bit: they
/// are ordered like the magnitudes, and the patterns of infinity and NaN are
/// greater than all others.
float largestMagnitude(const float (&block)[blockElements]) {
  int32_t largest = 0;
  for (float value : block) {
    int32_t bits;
    std::memcpy(&bits, &value, sizeof bits);
    largest = std::max(largest, bits & 0x7fffffff);
  }
  float magnitude;
  std::memcpy(&magnitude, &largest, sizeof magnitude);
  return magnitude;
}

/// Writes the codes of a block whose elements are in [-1, 1].
void writeCodes(const float (&block)[blockElements], char *to) {
  static const std::array<float, 15> middles = middlesOf(nf4Values);
  std::array<float, 15> bounds = middles;
  uint32_t codes[blockElements];
  for (int64_t i = 0; i < blockElements; ++i) {
    uint32_t code = 0;
    for (float bound : bounds)
      code += block[i] > bound;
    codes[i] = code;
  }
  for (int64_t i = 0; i < blockElements; i += 2)
    to[i / 2] = char(codes[i] << 4 | codes[i + 1]);
}

} // namespace

Nf4Layout::Nf4Layout(int64_t elements)
    : elements(elements), blocks(ceilDiv(elements, blockElements)),
      groups(ceilDiv(blocks, groupBlocks)),
      scaleCodesAt(alignUp(ceilDiv(elements, 2))),
      nestedScalesAt(scaleCodesAt + alignUp(blocks)),
      offsetAt(nestedScalesAt + groups * int64_t(sizeof(float))),
      bytes(offsetAt + int64_t(sizeof(float))) {
  assert(elements >= 0);
}

Nf4Encoder::Nf4Encoder(const Nf4Layout &layout, char *bytes)
    : layout_(layout), bytes_(bytes) {
  magnitudes_.reserve(std::size_t(layout.blocks));
}

void Nf4Encoder::append(const float *values, int64_t count) {
  assert(count >= 0 &&
         int64_t(magnitudes_.size()) * blockElements + pendingCount_ + count <=
             layout_.elements);
  while (count > 0) {
    int64_t part = std::min(count, blockElements - pendingCount_);
    if (part == blockElements) {
      encodeBlock(values, blockElements);
    } else {
      std::copy_n(values, part, pending_.data() + pendingCount_);
      pendingCount_ += part;
      if (pendingCount_ == blockElements)
        encodePending();
    }
    values += part;
    count -= part;
  }
}

void Nf4Encoder::encodeBlock(const float *values, int64_t count) {
  int64_t first = int64_t(magnitudes_.size()) * blockElements;
  float block[blockElements] = {};
  if (count == blockElements)
    std::memcpy(block, values, sizeof block);
  else
    std::copy_n(values, count, block);
  float magnitude = largestMagnitude(block);
  if (!std::isfinite(magnitude)) {
    if (!firstNonFinite_) {
      auto isFinite = [](float value) { return std::isfinite(value); };
      const float *found = std::find_if_not(values, values + count, isFinite);
      firstNonFinite_ = first + (found - values);
    }
    std::fill_n(block, blockElements, 0.0f);
    magnitude = 0;
  }
  // As in bitsandbytes, the elements of a complete block are multiplied by an
  // inverse, and those of an incomplete block are divided. Only for an
  // incomplete block, a stored magnitude below leastMagnitude is raised to
  // leastMagnitude.
  if (count == blockElements) {
    float inverse = 1.0f / std::max(magnitude, leastMagnitude);
    for (float &value : block)
      value *= inverse;
    writeCodes(block, bytes_ + first / 2);
  } else {
    magnitude = std::max(magnitude, leastMagnitude);
    for (float &value : block)
      value /= magnitude;
    char codes[blockElements / 2];
    writeCodes(block, codes);
    std::copy_n(codes, ceilDiv(count, 2), bytes_ + first / 2);
  }
  magnitudes_.push_back(magnitude);
}

float Nf4Encoder::mean() const {
  double sum = 0;
  for (float magnitude : magnitudes_)
    sum += magnitude;
  return magnitudes_.empty() ? 0.0f : float(sum / double(magnitudes_.size()));
}

void Nf4Encoder::encodeScales(int64_t group, float offset) {
  int64_t first = group * groupBlocks;
  int64_t count = std::min(groupBlocks, layout_.blocks - first);
  float differences[groupBlocks];
  float nested = 0;
  for (int64_t i = 0; i < count; ++i) {
    differences[i] = magnitudes_[std::size_t(first + i)] - offset;
    nested = std::max(nested, std::fabs(differences[i]));
  }
  static const std::vector<uint8_t> scaleCodes = makeScaleCodes();
  char *codes = bytes_ + layout_.scaleCodesAt + first;
  float inverse = 1.0f / nested;
  for (int64_t i = 0; i < count; ++i)
    codes[i] =
        char(scaleCodes[std::size_t(scaleIndexOf(differences[i] * inverse))]);
  std::memcpy(bytes_ + layout_.nestedScalesAt + group * int64_t(sizeof nested),
              &nested, sizeof nested);
}

void Nf4Encoder::encodePending() {
  if (pendingCount_ > 0)
    encodeBlock(pending_.data(), pendingCount_);
  pendingCount_ = 0;
}

bool Nf4Encoder::finish() {
  encodePending();
  return finish(mean());
}

bool Nf4Encoder::finish(float offset) {
  assert(std::isfinite(offset));
  encodePending();
  assert(int64_t(magnitudes_.size()) == layout_.blocks);
  std::fill(bytes_ + ceilDiv(layout_.elements, 2),
            bytes_ + layout_.scaleCodesAt, 0);
  std::fill(bytes_ + layout_.scaleCodesAt + layout_.blocks,
            bytes_ + layout_.nestedScalesAt, 0);
  for (int64_t group = 0; group < layout_.groups; ++group)
    encodeScales(group, offset);
  std::memcpy(bytes_ + layout_.offsetAt, &offset, sizeof offset);
  return !firstNonFinite_;
}

void kiln::support::decodeNf4(const char *bytes, const Nf4Layout &layout,
                              int64_t first, int64_t count, float *to) {
  assert(first >= 0 && count >= 0 && first <= layout.elements - count);
  const std::array<float, 256> &dynamic = dynamicValues(DynamicMap::Signed);
  auto *codes = reinterpret_cast<const uint8_t *>(bytes);
  float offset = loadFloat(bytes + layout.offsetAt);
  int64_t end = first + count;
  for (int64_t i = first; i < end;) {
    int64_t block = i / blockElements;
    int64_t blockEnd = std::min(end, (block + 1) * blockElements);
    float scale = dynamic[codes[layout.scaleCodesAt + block]] *
                  loadFloat(bytes + layout.nestedScalesAt +
                            block / groupBlocks * int64_t(sizeof(float)));
    scale += offset;
    float values[16];
    for (std::size_t code = 0; code < 16; ++code)
      values[code] = nf4Values[code] * scale;
    if (i % 2 != 0)
      *to++ = values[codes[i++ / 2] & 15];
    for (; i + 1 < blockEnd; i += 2, to += 2) {
      to[0] = values[codes[i / 2] >> 4];
      to[1] = values[codes[i / 2] & 15];
    }
    if (i < blockEnd)
      *to++ = values[codes[i++ / 2] >> 4];
  }
}
