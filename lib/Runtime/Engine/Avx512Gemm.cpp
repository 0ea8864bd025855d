//===- Avx512Gemm.cpp - GEMMs with AVX-512 --------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All element types share the code below, except the multiply-add. A packed
// panel contains 14 rows of a or 32 columns of b, in units of four bytes (see
// PackedGemm.h). Units of different rows (or columns) with the same index along
// k are contiguous in the panel.
//
//===----------------------------------------------------------------------===//

#include "Avx512Gemm.h"

#include "PackedGemm.h"

using namespace kiln::runtime::packed;

namespace kiln::runtime {

bool hasAvx512Gemm(ElementType type) {
  bool hasF32 =
      __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
  return hasF32 &&
         (type == ElementType::F32 || type == ElementType::F16 ||
          (type == ElementType::BF16 && __builtin_cpu_supports("avx512bf16")));
}

namespace {

constexpr abi::packed::Limits limits = abi::packed::avx512;

/// Computes `Rows` rows and 16 * `Vectors` columns of c from a panel of a and a
/// panel of b with `depth` units along k. `last` is the mask of the columns of
/// c in the last vector of each row. A unit is a pair of bf16 if `IsPair`, and
/// otherwise an f32.
template <bool IsPair, int Rows, int Vectors>
KILN_AVX512 void multiplyPanels(int64_t depth, const uint32_t *a,
                                const uint32_t *b, float *c, int64_t ldc,
                                bool accumulate, __mmask16 last) {
  __m512 sums[Rows][Vectors];
#pragma clang loop unroll(full)
  for (int i = 0; i < Rows; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < Vectors; ++j) {
      _mm_prefetch(reinterpret_cast<const char *>(c + i * ldc + lanes * j),
                   _MM_HINT_T0);
      sums[i][j] = _mm512_setzero_ps();
    }
#pragma clang loop unroll_count(4)
  for (int64_t l = 0; l < depth; ++l) {
    __m512i right[Vectors];
#pragma clang loop unroll(full)
    for (int j = 0; j < Vectors; ++j)
      right[j] = _mm512_load_si512(b + lanes * j);
#pragma clang loop unroll(full)
    for (int i = 0; i < Rows; ++i) {
      __m512i left = _mm512_set1_epi32(static_cast<int>(a[i]));
#pragma clang loop unroll(full)
      for (int j = 0; j < Vectors; ++j)
        if constexpr (IsPair)
          sums[i][j] =
              _mm512_dpbf16_ps(sums[i][j], reinterpret_cast<__m512bh>(left),
                               reinterpret_cast<__m512bh>(right[j]));
        else
          sums[i][j] =
              _mm512_fmadd_ps(_mm512_castsi512_ps(left),
                              _mm512_castsi512_ps(right[j]), sums[i][j]);
    }
    a += limits.rows;
    b += limits.columns;
  }
#pragma clang loop unroll(full)
  for (int i = 0; i < Rows; ++i)
#pragma clang loop unroll(full)
    for (int j = 0; j < Vectors; ++j) {
      float *place = c + i * ldc + lanes * j;
      __mmask16 mask = j + 1 == Vectors ? last : firstLanes(lanes);
      __m512 sum = sums[i][j];
      if (accumulate)
        sum = _mm512_add_ps(_mm512_maskz_loadu_ps(mask, place), sum);
      _mm512_mask_storeu_ps(place, mask, sum);
    }
}

using PanelKernel = void (*)(int64_t depth, const uint32_t *a,
                             const uint32_t *b, float *c, int64_t ldc,
                             bool accumulate, __mmask16 last);

/// Returns the kernel for panels with `rows` rows and at most 16 * `Vectors`
/// columns.
template <bool IsPair, int Vectors, int Rows = limits.rows>
PanelKernel panelKernel(int64_t rows) {
  if constexpr (Rows > 1)
    if (rows < Rows)
      return panelKernel<IsPair, Vectors, Rows - 1>(rows);
  return multiplyPanels<IsPair, Rows, Vectors>;
}

template <bool IsPair> PanelKernel panelKernel(int64_t rows, int64_t cols) {
  return cols > lanes ? panelKernel<IsPair, 2>(rows)
                      : panelKernel<IsPair, 1>(rows);
}

/// See multiplyBlocks().
template <ElementType Type> struct Avx512Kernel {
  static constexpr ElementType type = Type;
  static constexpr abi::packed::Limits limits = abi::packed::avx512;

  static int64_t units(int64_t depth) {
    return (depth + Sizes<Type>::perUnit - 1) / Sizes<Type>::perUnit;
  }
  static void packLeft(const Operand &a, int64_t first, int64_t extent,
                       int64_t begin, int64_t depth, uint32_t *to) {
    packPanels<Type>(a, first, extent, begin, depth, to, limits.rows,
                     limits.rows * units(depth));
  }
  static void packRight(const Operand &b, int64_t first, int64_t extent,
                        int64_t begin, int64_t depth, uint32_t *to) {
    packPanels<Type>(b, first, extent, begin, depth, to, limits.columns,
                     limits.columns * units(depth));
  }
  static void multiply(int64_t rows, int64_t columns, int64_t units,
                       const uint32_t *a, const uint32_t *b, float *c,
                       int64_t ldc, bool accumulate) {
    panelKernel<Type == ElementType::BF16>(rows, columns)(
        units, a, b, c, ldc, accumulate, firstLanes((columns - 1) % lanes + 1));
  }
};

} // namespace

void avx512Gemm(const GemmCall &call, ElementType resultType, char *scratch) {
  bool isNarrowResult = isNarrowFloat(resultType);
  if (call.type == ElementType::BF16)
    multiplyBlocks<Avx512Kernel<ElementType::BF16>>(call, isNarrowResult,
                                                    scratch);
  else if (call.type == ElementType::F16)
    multiplyBlocks<Avx512Kernel<ElementType::F16>>(call, isNarrowResult,
                                                   scratch);
  else
    multiplyBlocks<Avx512Kernel<ElementType::F32>>(call, false, scratch);
}

} // namespace kiln::runtime
