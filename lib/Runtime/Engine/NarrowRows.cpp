//===- NarrowRows.cpp - Conversion of matrices of narrow floats -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions of bf16 use only baseline x86-64 instructions. They take a few
// percent of the time of a GEMM and are limited by memory bandwidth. Wider
// vector instructions would therefore save little time. Conversions of f16 use
// F16C if the processor has it; the results are the same without it.
//
//===----------------------------------------------------------------------===//

#include "NarrowRows.h"

#include "kiln/Support/ElementConversion.h"

#include <cassert>
#include <cstring>
#include <immintrin.h>

using namespace kiln::support;

// Only functions with this attribute may use F16C.
#define KILN_F16C __attribute__((target("avx,f16c")))

namespace kiln::runtime {

//===----------------------------------------------------------------------===//
// bf16
//===----------------------------------------------------------------------===//

static uint16_t narrowToBfloat(float value) {
  uint32_t bits;
  std::memcpy(&bits, &value, sizeof(bits));
  if ((bits & 0x7fffffff) > 0x7f800000)
    return 0x7fc0;
  // Rounding up may carry out of the mantissa. The carry increments the
  // exponent, which gives the correct result.
  return uint16_t((bits + 0x7fff + ((bits >> 16) & 1)) >> 16);
}

/// Converts four f32 numbers to bf16. Each result is a 16-bit pattern
/// sign-extended to 32 bits, as _mm_packs_epi32 requires.
static __m128i narrowedFour(const float *from) {
  __m128 values = _mm_loadu_ps(from);
  __m128i bits = _mm_castps_si128(values);
  __m128i isOdd = _mm_and_si128(_mm_srli_epi32(bits, 16), _mm_set1_epi32(1));
  __m128i rounded =
      _mm_add_epi32(bits, _mm_add_epi32(isOdd, _mm_set1_epi32(0x7fff)));
  __m128i isNan = _mm_castps_si128(_mm_cmpunord_ps(values, values));
  rounded = _mm_or_si128(_mm_andnot_si128(isNan, rounded),
                         _mm_and_si128(isNan, _mm_set1_epi32(0x7fc00000)));
  return _mm_srai_epi32(rounded, 16);
}

static void widenBfloat(const char *from, int64_t count, float *to) {
  const __m128i zero = _mm_setzero_si128();
  int64_t i = 0;
  for (; i + 8 <= count; i += 8) {
    __m128i bits =
        _mm_loadu_si128(reinterpret_cast<const __m128i *>(from + 2 * i));
    _mm_storeu_ps(to + i, _mm_castsi128_ps(_mm_unpacklo_epi16(zero, bits)));
    _mm_storeu_ps(to + i + 4, _mm_castsi128_ps(_mm_unpackhi_epi16(zero, bits)));
  }
  for (; i < count; ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, sizeof(bits));
    uint32_t wide = uint32_t(bits) << 16;
    std::memcpy(to + i, &wide, sizeof(wide));
  }
}

static void narrowBfloat(const float *from, int64_t count, char *to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(
        reinterpret_cast<__m128i *>(to + 2 * i),
        _mm_packs_epi32(narrowedFour(from + i), narrowedFour(from + i + 4)));
  for (; i < count; ++i) {
    uint16_t bits = narrowToBfloat(from[i]);
    std::memcpy(to + 2 * i, &bits, sizeof(bits));
  }
}

//===----------------------------------------------------------------------===//
// f16
//===----------------------------------------------------------------------===//

/// Converts full groups of eight elements. Returns the number of converted
/// elements.
KILN_F16C static int64_t widenHalfEights(const char *from, int64_t count,
                                         float *to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm256_storeu_ps(to + i,
                     _mm256_cvtph_ps(_mm_loadu_si128(
                         reinterpret_cast<const __m128i *>(from + 2 * i))));
  return i;
}

KILN_F16C static int64_t narrowHalfEights(const float *from, int64_t count,
                                          char *to) {
  int64_t i = 0;
  for (; i + 8 <= count; i += 8)
    _mm_storeu_si128(
        reinterpret_cast<__m128i *>(to + 2 * i),
        _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  return i;
}

static bool hasF16c() {
  static const bool has = __builtin_cpu_supports("f16c");
  return has;
}

static void widenHalf(const char *from, int64_t count, float *to) {
  for (int64_t i = hasF16c() ? widenHalfEights(from, count, to) : 0; i < count;
       ++i) {
    uint16_t bits;
    std::memcpy(&bits, from + 2 * i, sizeof(bits));
    to[i] = halfToFloat(bits);
  }
}

static void narrowHalf(const float *from, int64_t count, char *to) {
  for (int64_t i = hasF16c() ? narrowHalfEights(from, count, to) : 0; i < count;
       ++i) {
    uint16_t bits = doubleToHalf(double(from[i]));
    std::memcpy(to + 2 * i, &bits, sizeof(bits));
  }
}

//===----------------------------------------------------------------------===//
// Rows
//===----------------------------------------------------------------------===//

static bool isHalf(ElementType type) {
  assert(type == ElementType::BF16 || type == ElementType::F16);
  return type == ElementType::F16;
}

void widenRows(ElementType type, const char *from, int64_t ld, int64_t rows,
               int64_t columns, float *to, int64_t toLd) {
  auto *widen = isHalf(type) ? widenHalf : widenBfloat;
  for (int64_t row = 0; row < rows; ++row)
    widen(from + 2 * row * ld, columns, to + row * toLd);
}

void narrowRows(ElementType type, const float *from, int64_t fromLd,
                int64_t rows, int64_t columns, char *to, int64_t ld) {
  auto *narrow = isHalf(type) ? narrowHalf : narrowBfloat;
  for (int64_t row = 0; row < rows; ++row)
    narrow(from + row * fromLd, columns, to + 2 * row * ld);
}

} // namespace kiln::runtime
