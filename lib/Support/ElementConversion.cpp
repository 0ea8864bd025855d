//===- ElementConversion.cpp - Conversion between element types -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Rounds narrow floating-point types with integer arithmetic, so that the
// result does not depend on the rounding mode or denormal mode of the thread.
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/ElementConversion.h"
#include <algorithm>
#include <cassert>
#include <cmath>
#include <cstring>
#include <type_traits>

using namespace kiln::support;

namespace {

bool isNumber(ElementType type) {
  return infoOf(type).kind != ElementKind::Opaque;
}

/// Rounds `value` to `format`, which has 8 or 16 bits, to nearest even. Returns
/// the bits of the result.
inline uint64_t roundToNarrow(const FloatFormat &format, double value) {
  int mantissaBits = int(format.mantissaBits);
  uint64_t bits;
  std::memcpy(&bits, &value, sizeof bits);
  uint64_t sign = (bits >> 63) << (format.exponentBits + format.mantissaBits);
  int exponent = (bits >> 52) & 0x7ff;
  uint64_t mantissa = bits & ((uint64_t{1} << 52) - 1);
  if (exponent == 0x7ff)
    return sign | (mantissa ? format.quietNaN() : format.overflow());
  if (exponent == 0) // A subnormal double or zero: rounds to zero.
    return sign;
  uint64_t significand = mantissa | uint64_t{1} << 52;
  int narrow = exponent - 1023 + format.bias();
  int shift = 52 - mantissaBits + (narrow < 1 ? 1 - narrow : 0);
  if (shift > 54)
    return sign;
  uint64_t kept = significand >> shift;
  uint64_t rest = significand & ((uint64_t{1} << shift) - 1);
  uint64_t half = uint64_t{1} << (shift - 1);
  if (rest > half || (rest == half && (kept & 1)))
    ++kept;
  // If the result is normal, `kept` contains the implicit bit, which adds 1 to
  // the exponent field. The added exponent is therefore narrow - 1 instead of
  // `narrow`. A carry from rounding increments the exponent, as required.
  uint64_t result =
      kept + (narrow < 1 ? 0 : uint64_t(narrow - 1) << mantissaBits);
  return sign | (result > format.largest() ? format.overflow() : result);
}

/// Returns the value that `bits` represents in `format`, which has 8 or 16
/// bits. The conversion is exact.
inline double widen(const FloatFormat &format, uint64_t bits) {
  unsigned size = format.exponentBits + format.mantissaBits;
  uint64_t code = bits & ((uint64_t{1} << size) - 1);
  double sign = bits >> size ? -1 : 1;
  if (code > format.largest())
    return std::copysign(format.hasInfinity && code == format.infinity()
                             ? double(INFINITY)
                             : double(NAN),
                         sign);
  uint64_t mantissa = code & ((uint64_t{1} << format.mantissaBits) - 1);
  int exponent = int(code >> format.mantissaBits);
  if (exponent > 0)
    mantissa |= uint64_t{1} << format.mantissaBits;
  return sign *
         std::ldexp(double(mantissa), std::max(exponent, 1) - format.bias() -
                                          int(format.mantissaBits));
}

template <typename T> T load(const unsigned char *source) {
  T value;
  std::memcpy(&value, source, sizeof value);
  return value;
}

/// Tags for element types that no C++17 type represents.
struct Half {};
struct Bfloat {};
struct Truth {};

template <typename S> struct Source {
  static constexpr std::size_t size = sizeof(S);
  static S get(const unsigned char *p) { return load<S>(p); }
};
template <> struct Source<Half> {
  static constexpr std::size_t size = 2;
  static float get(const unsigned char *p) {
    return halfToFloat(load<uint16_t>(p));
  }
};
template <> struct Source<Bfloat> {
  static constexpr std::size_t size = 2;
  static float get(const unsigned char *p) {
    return bfloatToFloat(load<uint16_t>(p));
  }
};
template <> struct Source<Truth> {
  static constexpr std::size_t size = 1;
  static float get(const unsigned char *p) { return *p != 0 ? 1.0f : 0.0f; }
};

/// Converts `value` to a double that rounds to the same narrow float as
/// `value`.
template <typename T> double forNarrow(T value) {
  if constexpr (std::is_integral_v<T> && sizeof(T) == 8) {
    // The bits that a double cannot represent are combined into a sticky bit.
    constexpr uint64_t lost = 0xfff;
    bool isNegative = value < 0;
    uint64_t size = isNegative ? 0 - uint64_t(value) : uint64_t(value);
    if (size >> 53 && size & lost)
      size = (size & ~lost) | (lost + 1) / 2;
    return isNegative ? -double(size) : double(size);
  }
  return double(value);
}

template <typename S>
void convertFrom(const unsigned char *source, ElementType to,
                 unsigned char *destination, std::size_t count) {
  auto each = [&](auto convert) {
    using Stored = decltype(convert(Source<S>::get(source)));
    for (std::size_t i = 0; i < count; ++i) {
      Stored value = convert(Source<S>::get(source + i * Source<S>::size));
      std::memcpy(destination + i * sizeof value, &value, sizeof value);
    }
  };
  switch (to) {
  case ElementType::F64:
    return each([](auto value) { return static_cast<double>(value); });
  case ElementType::F32:
    return each([](auto value) { return static_cast<float>(value); });
  case ElementType::F16:
    return each([](auto value) { return doubleToHalf(forNarrow(value)); });
  case ElementType::BF16:
    return each([](auto value) { return doubleToBfloat(forNarrow(value)); });
  default:
    assert(isFloat(to) && bitsOf(to) == 8 && "isConvertible holds");
    return each([&](auto value) {
      return uint8_t(roundToNarrow(infoOf(to).format, forNarrow(value)));
    });
  }
}

/// Converts elements of an 8-bit floating-point type to type `to`.
void convertFromByte(const FloatFormat &format, const unsigned char *source,
                     ElementType to, unsigned char *destination,
                     std::size_t count) {
  constexpr std::size_t most = 256;
  double wide[most];
  while (count > 0) {
    std::size_t part = std::min(count, most);
    for (std::size_t i = 0; i < part; ++i)
      wide[i] = widen(format, source[i]);
    convertFrom<double>(reinterpret_cast<const unsigned char *>(wide), to,
                        destination, part);
    source += part;
    destination += bytesOf(to, int64_t(part));
    count -= part;
  }
}

} // namespace

bool kiln::support::isConvertible(ElementType from, ElementType to) {
  return from == to ? bitsOf(from) % 8 == 0 : isNumber(from) && isFloat(to);
}

void kiln::support::convertElements(ElementType from, const void *source,
                                    ElementType to, void *destination,
                                    std::size_t count) {
  assert(isConvertible(from, to));
  if (count == 0)
    return;
  if (from == to) {
    std::memcpy(destination, source, bytesOf(from, int64_t(count)));
    return;
  }
  auto *in = static_cast<const unsigned char *>(source);
  auto *out = static_cast<unsigned char *>(destination);
  switch (from) {
  case ElementType::F64:
    return convertFrom<double>(in, to, out, count);
  case ElementType::F32:
    return convertFrom<float>(in, to, out, count);
  case ElementType::F16:
    return convertFrom<Half>(in, to, out, count);
  case ElementType::BF16:
    return convertFrom<Bfloat>(in, to, out, count);
  case ElementType::I64:
    return convertFrom<int64_t>(in, to, out, count);
  case ElementType::I32:
    return convertFrom<int32_t>(in, to, out, count);
  case ElementType::I16:
    return convertFrom<int16_t>(in, to, out, count);
  case ElementType::I8:
    return convertFrom<int8_t>(in, to, out, count);
  case ElementType::U64:
    return convertFrom<uint64_t>(in, to, out, count);
  case ElementType::U32:
    return convertFrom<uint32_t>(in, to, out, count);
  case ElementType::U16:
    return convertFrom<uint16_t>(in, to, out, count);
  case ElementType::U8:
    return convertFrom<uint8_t>(in, to, out, count);
  case ElementType::Bool:
    return convertFrom<Truth>(in, to, out, count);
  default:
    assert(isFloat(from) && bitsOf(from) == 8 && "isConvertible holds");
    return convertFromByte(infoOf(from).format, in, to, out, count);
  }
}

double kiln::support::roundTo(ElementType type, double value) {
  switch (type) {
  case ElementType::F32:
    return static_cast<float>(value);
  case ElementType::F64:
    return value;
  default: {
    assert(isFloat(type));
    const FloatFormat &format = infoOf(type).format;
    return widen(format, roundToNarrow(format, value));
  }
  }
}

float kiln::support::halfToFloat(uint16_t bits) {
  uint32_t sign = uint32_t(bits & 0x8000) << 16;
  uint32_t exponent = (bits >> 10) & 0x1f;
  uint32_t mantissa = bits & 0x3ff;
  uint32_t result;
  if (exponent == 0) {
    // The value of a subnormal half is mantissa * 2^-24, which is exact in f32.
    float value = float(mantissa) * 0x1p-24f;
    std::memcpy(&result, &value, sizeof result);
  } else if (exponent == 0x1f) {
    result = 0x7f800000 | mantissa << 13;
  } else {
    result = (exponent + 112) << 23 | mantissa << 13;
  }
  result |= sign;
  float value;
  std::memcpy(&value, &result, sizeof value);
  return value;
}

float kiln::support::bfloatToFloat(uint16_t bits) {
  uint32_t wide = uint32_t(bits) << 16;
  float value;
  std::memcpy(&value, &wide, sizeof value);
  return value;
}

uint16_t kiln::support::doubleToHalf(double value) {
  return uint16_t(roundToNarrow({5, 10}, value));
}

uint16_t kiln::support::doubleToBfloat(double value) {
  return uint16_t(roundToNarrow({8, 7}, value));
}
