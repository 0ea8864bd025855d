//===- LowPrecisionGemm.cpp - GEMMs of bf16 on a CPU ----------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions use only baseline x86-64 instructions. They take a few percent of
// the time of a GEMM and are limited by memory bandwidth, so that wider vector
// instructions would save little time.
//
//===----------------------------------------------------------------------===//

#include "LowPrecisionGemm.h"

#include "kiln/Abi/GemmWorkspace.h"

#include <cstring>
#include <emmintrin.h>

using namespace kiln::abi;

namespace kiln::runtime {

static uint16_t narrowed(float value) {
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

void widenRows(const char *from, int64_t ld, int64_t rows, int64_t columns,
               float *to, int64_t toLd) {
  const __m128i zero = _mm_setzero_si128();
  for (int64_t row = 0; row < rows; ++row) {
    const char *source = from + 2 * row * ld;
    float *target = to + row * toLd;
    int64_t i = 0;
    for (; i + 8 <= columns; i += 8) {
      __m128i bits =
          _mm_loadu_si128(reinterpret_cast<const __m128i *>(source + 2 * i));
      _mm_storeu_ps(target + i,
                    _mm_castsi128_ps(_mm_unpacklo_epi16(zero, bits)));
      _mm_storeu_ps(target + i + 4,
                    _mm_castsi128_ps(_mm_unpackhi_epi16(zero, bits)));
    }
    for (; i < columns; ++i) {
      uint16_t bits;
      std::memcpy(&bits, source + 2 * i, sizeof(bits));
      uint32_t wide = uint32_t(bits) << 16;
      std::memcpy(target + i, &wide, sizeof(wide));
    }
  }
}

void narrowRows(const float *from, int64_t fromLd, int64_t rows,
                int64_t columns, char *to, int64_t ld) {
  for (int64_t row = 0; row < rows; ++row) {
    const float *source = from + row * fromLd;
    char *target = to + 2 * row * ld;
    int64_t i = 0;
    for (; i + 8 <= columns; i += 8)
      _mm_storeu_si128(reinterpret_cast<__m128i *>(target + 2 * i),
                       _mm_packs_epi32(narrowedFour(source + i),
                                       narrowedFour(source + i + 4)));
    for (; i < columns; ++i) {
      uint16_t bits = narrowed(source[i]);
      std::memcpy(target + 2 * i, &bits, sizeof(bits));
    }
  }
}

namespace {

/// A block of op(a), op(b) or c.
struct Part {
  int64_t row, rows, column, columns;
};

} // namespace

/// Converts a block of op(x) to f32. The result has the storage order of x.
/// Returns the leading dimension of the result.
static int64_t widenPart(const char *x, int64_t ld, bool isTransposed,
                         Part part, float *to) {
  if (isTransposed) {
    std::swap(part.row, part.column);
    std::swap(part.rows, part.columns);
  }
  widenRows(x + 2 * (part.row * ld + part.column), ld, part.rows, part.columns,
            to, part.columns);
  return part.columns;
}

void lowPrecisionGemm(const GemmCall &call, ElementType resultType,
                      char *scratch, const TileEpilogue &epilogue) {
  const int64_t m = blockExtent(call.m, blockRows),
                n = blockExtent(call.n, blockColumns),
                k = blockExtent(call.k, blockDepth);
  auto *a = reinterpret_cast<float *>(scratch);
  float *b = a + m * k, *c = b + k * n;
  bool isNarrow = resultType == ElementType::BF16;

  // Computes one block of c.
  auto compute = [&](int64_t row, int64_t column) {
    GemmCall block = call;
    block.type = ElementType::F32;
    block.m = std::min(m, call.m - row);
    block.n = std::min(n, call.n - column);
    block.a = reinterpret_cast<char *>(a);
    block.b = reinterpret_cast<char *>(b);
    int64_t place = row * call.ldc + column;
    if (isNarrow) {
      block.c = reinterpret_cast<char *>(c);
      block.ldc = block.n;
      if (call.accumulate)
        widenRows(call.c + 2 * place, call.ldc, block.m, block.n, c, block.n);
    } else {
      block.c = call.c + 4 * place;
    }
    for (int64_t depth = 0; depth < call.k; depth += k) {
      block.k = std::min(k, call.k - depth);
      block.lda = widenPart(call.a, call.lda, call.transA,
                            {row, block.m, depth, block.k}, a);
      block.ldb = widenPart(call.b, call.ldb, call.transB,
                            {depth, block.k, column, block.n}, b);
      gemm(block);
      block.accumulate = true;
    }
    if (isNarrow)
      finishTile(epilogue.at(row, column), block.m, block.n, block.c, block.n);
    if (isNarrow)
      narrowRows(c, block.n, block.m, block.n, call.c + 2 * place, call.ldc);
  };
  for (int64_t row = 0; row < call.m; row += m)
    for (int64_t column = 0; column < call.n; column += n)
      compute(row, column);
}

} // namespace kiln::runtime
