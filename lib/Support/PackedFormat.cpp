//===- PackedFormat.cpp - Formats of quantized weight files ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/PackedFormat.h"
#include "kiln/Support/CheckedMath.h"
#include "kiln/Support/KashinCode.h"
#include "kiln/Support/UniformCode.h"

#include <algorithm>

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

void PackedFormat::encode(const float *values, int64_t count, uint8_t *codes,
                          float *scales) const {
  const int64_t block = blockElements();
  for (int64_t first = 0; first < count; first += block) {
    int64_t now = std::min(block, count - first);
    if (isKashin_)
      KashinCode(bits_).encode(values + first, now, codes, scales);
    else
      *scales = encodeUniform(bits_, values + first, now, codes);
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
      decodeUniform(bits_, codes, *scales, now, values + first);
    }
    codes += block * bits_ / 8;
    scales += scalesPerBlock();
  }
}
