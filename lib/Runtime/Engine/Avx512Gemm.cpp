//===- Avx512Gemm.cpp - GEMMs with AVX-512 --------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// All element types share the code below, except the multiply-add and the code
// that reads elements to pack them. A packed operand consists of units of four
// bytes. A unit is one f32, one f16 converted to f32, or two bf16 that are
// adjacent along k, as VDPBF16PS requires.
//
// A packed panel contains 14 rows of a or 32 columns of b. Units of different
// rows (or columns) with the same index along k are contiguous in the panel.
//
//===----------------------------------------------------------------------===//

#include "Avx512Gemm.h"

#include "NarrowRows.h"
#include "kiln/Abi/GemmWorkspace.h"

#include <algorithm>
#include <cstring>
#include <immintrin.h>

using namespace kiln::abi;

// Only functions with this attribute may use AVX-512, because the rest of this
// file also runs on processors without it. The compiler emits AVX512-BF16
// instructions only for AVX512-BF16 intrinsics, so the f32 and f16 kernels also
// run on processors without AVX512-BF16.
#define KILN_AVX512                                                            \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

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

/// The number of units of four bytes per vector.
constexpr int lanes = 16;

/// The sizes of an operand's elements.
template <ElementType Type> struct Sizes {
  static constexpr int64_t bytes = Type == ElementType::F32 ? 4 : 2;
  /// The number of elements per unit of four bytes.
  static constexpr int64_t perUnit = Type == ElementType::BF16 ? 2 : 1;
};

/// Returns a mask of the first `count` lanes, or of all 16 lanes if `count` is
/// larger.
KILN_AVX512 inline __mmask16 firstLanes(int64_t count) {
  return static_cast<__mmask16>(count >= lanes ? 0xffff : (1 << count) - 1);
}

//===----------------------------------------------------------------------===//
// Inner loop
//===----------------------------------------------------------------------===//

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
    a += packed::rows;
    b += packed::columns;
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
template <bool IsPair, int Vectors, int Rows = packed::rows>
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

//===----------------------------------------------------------------------===//
// Packing
//===----------------------------------------------------------------------===//

/// Transposes a matrix of 16 x 16 units of four bytes.
KILN_AVX512 void transpose(__m512i rows[lanes]) {
  __m512i other[lanes];
  for (int i = 0; i < 8; ++i) {
    other[2 * i] = _mm512_unpacklo_epi32(rows[2 * i], rows[2 * i + 1]);
    other[2 * i + 1] = _mm512_unpackhi_epi32(rows[2 * i], rows[2 * i + 1]);
  }
  for (int i = 0; i < 16; i += 4)
    for (int j = 0; j < 2; ++j) {
      rows[i + 2 * j] = _mm512_unpacklo_epi64(other[i + j], other[i + j + 2]);
      rows[i + 2 * j + 1] =
          _mm512_unpackhi_epi64(other[i + j], other[i + j + 2]);
    }
  for (int i = 0; i < 16; i += 8)
    for (int j = 0; j < 4; ++j) {
      __m512i low = rows[i + j], high = rows[i + j + 4];
      other[i + j] = _mm512_shuffle_i32x4(low, high, 0x88);
      other[i + j + 4] = _mm512_shuffle_i32x4(low, high, 0xdd);
    }
  for (int i = 0; i < 8; ++i) {
    rows[i] = _mm512_shuffle_i32x4(other[i], other[i + 8], 0x88);
    rows[i + 8] = _mm512_shuffle_i32x4(other[i], other[i + 8], 0xdd);
  }
}

/// Reads `elements` adjacent elements, which are at most 16 units of four
/// bytes. The remaining lanes are zero.
template <ElementType Type>
KILN_AVX512 inline __m512i readUnits(const char *from, int64_t elements) {
  if constexpr (Type == ElementType::F32)
    return _mm512_maskz_loadu_epi32(firstLanes(elements), from);
  else if constexpr (Type == ElementType::F16)
    return _mm512_castps_si512(
        _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(firstLanes(elements), from)));
  else
    return _mm512_maskz_loadu_epi16(
        static_cast<__mmask32>((uint64_t(1) << elements) - 1), from);
}

/// Packs `rows` rows of a matrix, each of which has `depth` elements along k,
/// into a panel. The rows are `pitch` bytes apart. Row i of the matrix becomes
/// column i of the panel, which has `width` columns. If the last unit of four
/// bytes of a row is incomplete, the rest of the unit is zero.
template <ElementType Type>
KILN_AVX512 void packRows(const char *from, int64_t pitch, int64_t rows,
                          int64_t depth, uint32_t *to, int64_t width) {
  constexpr int64_t perUnit = Sizes<Type>::perUnit, bytes = Sizes<Type>::bytes;
  int64_t units = (depth + perUnit - 1) / perUnit;
  for (int64_t first = 0; first < rows; first += lanes) {
    int64_t count = std::min<int64_t>(lanes, rows - first);
    for (int64_t unit = 0; unit < units; unit += lanes) {
      int64_t elements =
          std::min<int64_t>(depth - perUnit * unit, perUnit * lanes);
      __m512i block[lanes];
      for (int64_t i = 0; i < lanes; ++i)
        block[i] = i < count ? readUnits<Type>(from + (first + i) * pitch +
                                                   bytes * perUnit * unit,
                                               elements)
                             : _mm512_setzero_si512();
      transpose(block);
      int64_t columns = std::min<int64_t>(lanes, units - unit);
      for (int64_t i = 0; i < columns; ++i)
        _mm512_mask_storeu_epi32(to + (unit + i) * width + first,
                                 firstLanes(count), block[i]);
    }
  }
}

/// Packs the first `columns` columns of a matrix, each of which has `depth`
/// elements along k, into a panel. The rows of the matrix are `pitch` bytes
/// apart.
template <ElementType Type>
KILN_AVX512 void packColumns(const char *from, int64_t pitch, int64_t columns,
                             int64_t depth, uint32_t *to, int64_t width) {
  constexpr int64_t bytes = Sizes<Type>::bytes;
  for (int64_t l = 0; l < depth; l += Sizes<Type>::perUnit, to += width)
    for (int64_t column = 0; column < columns; column += lanes) {
      __mmask16 mask = firstLanes(columns - column);
      __m512i units;
      if constexpr (Type == ElementType::BF16) {
        auto read = [&](int64_t row) KILN_AVX512 {
          return _mm512_cvtepu16_epi32(
              _mm256_maskz_loadu_epi16(mask, from + row * pitch + 2 * column));
        };
        units = read(l);
        if (l + 1 < depth)
          units = _mm512_or_si512(units, _mm512_slli_epi32(read(l + 1), 16));
      } else {
        units = readUnits<Type>(from + l * pitch + bytes * column,
                                std::min<int64_t>(columns - column, lanes));
      }
      _mm512_mask_storeu_epi32(to + column, mask, units);
    }
}

/// A matrix that packPanels() packs.
struct Operand {
  const char *begin;
  int64_t ld;
  /// True if the rows of the matrix extend along k.
  bool alongRows;
};

/// Packs panels from `extent` rows of op(a), or columns of op(b), that begin at
/// index `first`. The panels cover the elements [depthBegin, depthBegin +
/// depth) along k, and consecutive panels are `stride` units of four bytes
/// apart.
template <ElementType Type>
void packPanels(const Operand &operand, int64_t first, int64_t extent,
                int64_t depthBegin, int64_t depth, uint32_t *to, int64_t width,
                int64_t stride) {
  constexpr int64_t bytes = Sizes<Type>::bytes;
  int64_t pitch = bytes * operand.ld;
  for (int64_t i = 0; i < extent; i += width, to += stride) {
    int64_t count = std::min(width, extent - i);
    if (operand.alongRows)
      packRows<Type>(operand.begin + (first + i) * pitch + bytes * depthBegin,
                     pitch, count, depth, to, width);
    else
      packColumns<Type>(operand.begin + depthBegin * pitch +
                            bytes * (first + i),
                        pitch, count, depth, to, width);
  }
}

//===----------------------------------------------------------------------===//
// Blocks
//===----------------------------------------------------------------------===//

template <ElementType Type>
void multiply(const GemmCall &call, bool isNarrowResult, char *scratch) {
  constexpr int64_t perUnit = Sizes<Type>::perUnit;
  constexpr bool isPair = perUnit == 2;
  const packed::Blocks blocks(call.m, call.n, call.k,
                              packed::elementBytes(Type));
  auto *b = reinterpret_cast<uint32_t *>(scratch);
  uint32_t *a = b + blocks.columns * blocks.depth;
  auto *sums = reinterpret_cast<float *>(a + blocks.rows * blocks.depth);
  const Operand left{call.a, call.lda, !call.transA};
  const Operand right{call.b, call.ldb, call.transB};
  const int64_t depthStep = blocks.depth * perUnit;

  // c is computed in parts of this many rows. All sums of a part are complete
  // before the next part begins.
  int64_t partRows = isNarrowResult ? blocks.sumRows : call.m;
  auto computePart = [&](int64_t row, int64_t column, bool isPacked) {
    int64_t rows = std::min(partRows, call.m - row);
    int64_t columns = std::min(blocks.columns, call.n - column);
    int64_t place = row * call.ldc + column;
    float *c =
        isNarrowResult ? sums : reinterpret_cast<float *>(call.c) + place;
    int64_t ldc = isNarrowResult ? columns : call.ldc;
    if (isNarrowResult && call.accumulate)
      widenRows(Type, call.c + 2 * place, call.ldc, rows, columns, c, ldc);
    for (int64_t begin = 0; begin < call.k; begin += depthStep) {
      int64_t depth = std::min(depthStep, call.k - begin);
      int64_t units = (depth + perUnit - 1) / perUnit;
      bool accumulate = call.accumulate || begin > 0;
      if (!isPacked)
        packPanels<Type>(right, column, columns, begin, depth, b,
                         packed::columns, packed::columns * units);
      for (int64_t i = 0; i < rows; i += blocks.rows) {
        int64_t blockRows = std::min(blocks.rows, rows - i);
        packPanels<Type>(left, row + i, blockRows, begin, depth, a,
                         packed::rows, packed::rows * units);
        for (int64_t j = 0; j < columns; j += packed::columns) {
          int64_t panelColumns = std::min(packed::columns, columns - j);
          __mmask16 last = firstLanes((panelColumns - 1) % lanes + 1);
          for (int64_t r = 0; r < blockRows; r += packed::rows) {
            int64_t panelRows = std::min(packed::rows, blockRows - r);
            panelKernel<isPair>(panelRows, panelColumns)(
                units, a + r * units, b + j * units, c + (i + r) * ldc + j, ldc,
                accumulate, last);
          }
        }
      }
    }
    if (isNarrowResult)
      narrowRows(Type, c, ldc, rows, columns, call.c + 2 * place, call.ldc);
  };
  for (int64_t column = 0; column < call.n; column += blocks.columns)
    for (int64_t row = 0; row < call.m; row += partRows)
      computePart(row, column, row > 0 && call.k <= depthStep);
}

} // namespace

void avx512Gemm(const GemmCall &call, ElementType resultType, char *scratch) {
  bool isNarrowResult = isNarrowFloat(resultType);
  if (call.type == ElementType::BF16)
    multiply<ElementType::BF16>(call, isNarrowResult, scratch);
  else if (call.type == ElementType::F16)
    multiply<ElementType::F16>(call, isNarrowResult, scratch);
  else
    multiply<ElementType::F32>(call, false, scratch);
}

} // namespace kiln::runtime
