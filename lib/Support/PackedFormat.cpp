//===- PackedFormat.cpp - Formats of quantized weight files ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/PackedFormat.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/KashinCode.h"

#include <algorithm>
#include <cmath>

using namespace kiln::support;

static constexpr int64_t uniformBlock = 64;
static constexpr std::string_view kashinPrefix = "kashin:";

std::optional<PackedFormat> PackedFormat::named(std::string_view name) {
  if (name == "int8")
    return PackedFormat(/*isKashin=*/false, 8);
  if (name == "int4")
    return PackedFormat(/*isKashin=*/false, 4);
  for (int bits = KashinCode::leastBits; bits <= KashinCode::mostBits; ++bits)
    if (PackedFormat format(/*isKashin=*/true, bits); format.name() == name)
      return format;
  return std::nullopt;
}

std::string PackedFormat::allNames() {
  std::string names = "int8, int4";
  for (int bits = KashinCode::leastBits; bits <= KashinCode::mostBits; ++bits)
    names += (bits == KashinCode::mostBits ? " or " : ", ") +
             PackedFormat(/*isKashin=*/true, bits).name();
  return names;
}

std::string PackedFormat::name() const {
  return std::string(isKashin_ ? kashinPrefix : "int") + std::to_string(bits_);
}

int64_t PackedFormat::blockElements() const {
  return isKashin_ ? KashinCode::blockElements : uniformBlock;
}

int64_t PackedFormat::blocks(int64_t elements) const {
  return elements / blockElements() + (elements % blockElements() != 0);
}

int64_t PackedFormat::codeBytes(int64_t elements) const {
  if (isKashin_)
    return blocks(elements) * KashinCode(bits_).blockBytes();
  return bits_ == 8 ? elements : elements / 2 + elements % 2;
}

int64_t PackedFormat::bytes(int64_t elements) const {
  return codeBytes(elements) +
         blocks(elements) * scalesPerBlock() * int64_t(sizeof(float));
}

ElementType PackedFormat::codeType() const {
  return !isKashin_ && bits_ == 8 ? ElementType::I8 : ElementType::U8;
}

std::vector<int64_t>
PackedFormat::codeShape(const std::vector<int64_t> &shape) const {
  int64_t elements = *checkedElements(shape);
  if (isKashin_)
    return {blocks(elements), KashinCode(bits_).blockBytes()};
  return bits_ == 8 ? shape : std::vector<int64_t>{codeBytes(elements)};
}

std::vector<int64_t>
PackedFormat::scaleShape(const std::vector<int64_t> &shape) const {
  int64_t count = blocks(*checkedElements(shape));
  return isKashin_ ? std::vector<int64_t>{count, scalesPerBlock()}
                   : std::vector<int64_t>{count};
}

void PackedFormat::encodeUniform(const float *values, int64_t count,
                                 uint8_t *codes, float &scale) const {
  const float largest = float((1 << (bits_ - 1)) - 1);
  float magnitude = 0;
  for (int64_t i = 0; i < count; ++i)
    magnitude = std::max(magnitude, std::fabs(values[i]));
  scale = magnitude / largest;
  auto codeOf = [&](int64_t i) {
    // The scale of the smallest denormal numbers is rounded to zero.
    if (i >= count || scale == 0)
      return 0;
    return int(
        std::clamp(std::nearbyint(values[i] / scale), -largest, largest));
  };
  if (bits_ == 8) {
    for (int64_t i = 0; i < count; ++i)
      codes[i] = uint8_t(int8_t(codeOf(i)));
    return;
  }
  for (int64_t i = 0; i < count; i += 2)
    codes[i / 2] = uint8_t((codeOf(i) + 8) | (codeOf(i + 1) + 8) << 4);
}

void PackedFormat::decodeUniform(const uint8_t *codes, float scale,
                                 int64_t count, float *values) const {
  if (bits_ == 8) {
    for (int64_t i = 0; i < count; ++i)
      values[i] = scale * float(int8_t(codes[i]));
    return;
  }
  for (int64_t i = 0; i < count; ++i)
    values[i] = scale * float((codes[i / 2] >> (4 * (i % 2)) & 15) - 8);
}

void PackedFormat::encode(const float *values, int64_t count, uint8_t *codes,
                          float *scales) const {
  const int64_t block = blockElements();
  for (int64_t first = 0; first < count; first += block) {
    int64_t now = std::min(block, count - first);
    if (isKashin_)
      KashinCode(bits_).encode(values + first, now, codes, scales);
    else
      encodeUniform(values + first, now, codes, *scales);
    codes += block * bits_ / 8;
    scales += scalesPerBlock();
  }
}

void PackedFormat::decode(const uint8_t *codes, const float *scales,
                          int64_t count, float *values) const {
  const int64_t block = blockElements();
  for (int64_t first = 0; first < count; first += block) {
    int64_t now = std::min(block, count - first);
    if (isKashin_) {
      float whole[KashinCode::blockElements];
      KashinCode(bits_).decode(codes, scales, whole);
      std::copy_n(whole, now, values + first);
    } else {
      decodeUniform(codes, *scales, now, values + first);
    }
    codes += block * bits_ / 8;
    scales += scalesPerBlock();
  }
}
