//===- PackedGemm.h - Blocks and packing of kiln's GEMMs --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the GEMMs with AVX-512 and with AMX have in common: the loop over
// blocks, and the code that packs operands. A packed operand consists of units
// of four bytes. A unit is one f32, one f16 converted to f32, or two bf16 that
// are adjacent along k.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_PACKEDGEMM_H
#define KILN_LIB_RUNTIME_ENGINE_PACKEDGEMM_H

#include "Gemm.h"
#include "NarrowRows.h"
#include "kiln/Abi/GemmWorkspace.h"

#include <algorithm>
#include <immintrin.h>

// Only functions with this attribute may use AVX-512, because the rest of a
// file also runs on processors without it. The compiler emits AVX512-BF16
// instructions only for AVX512-BF16 intrinsics, so the f32 and f16 kernels also
// run on processors without AVX512-BF16.
#define KILN_AVX512                                                            \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx512bf16")))

namespace kiln::runtime::packed {

/// The number of units of four bytes per vector.
constexpr int lanes = 16;

/// The sizes of an operand's elements.
template <ElementType Type> struct Sizes {
  static constexpr int64_t bytes = Type == ElementType::F32 ? 4 : 2;
  /// The number of elements per packed unit of four bytes. An f16 fills a unit,
  /// because it is converted to f32.
  static constexpr int64_t perUnit = Type == ElementType::BF16 ? 2 : 1;
};

/// Returns a mask of the first `count` lanes, or of all 16 lanes if `count` is
/// larger.
KILN_AVX512 inline __mmask16 firstLanes(int64_t count) {
  return static_cast<__mmask16>(count >= lanes ? 0xffff : (1 << count) - 1);
}

/// Transposes a matrix of 16 x 16 units of four bytes.
KILN_AVX512 inline void transpose(__m512i rows[lanes]) {
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

/// Packs `columns` adjacent elements of a row. If a unit has two elements, the
/// second one is the element below the first one, from the row at `below`, or
/// zero if `below` is null.
template <ElementType Type>
KILN_AVX512 inline void packUnits(const char *row, const char *below,
                                  int64_t columns, uint32_t *to) {
  for (int64_t column = 0; column < columns; column += lanes) {
    __mmask16 mask = firstLanes(columns - column);
    __m512i units;
    if constexpr (Type == ElementType::BF16) {
      auto read = [&](const char *from) KILN_AVX512 {
        return _mm512_cvtepu16_epi32(
            _mm256_maskz_loadu_epi16(mask, from + 2 * column));
      };
      units = read(row);
      if (below)
        units = _mm512_or_si512(units, _mm512_slli_epi32(read(below), 16));
    } else {
      units = readUnits<Type>(row + Sizes<Type>::bytes * column,
                              std::min<int64_t>(columns - column, lanes));
    }
    _mm512_mask_storeu_epi32(to + column, mask, units);
  }
}

/// Packs the first `extent` columns of a matrix, each of which has `depth`
/// elements along k, into panels of `width` columns that are `stride` units
/// apart. The rows of the matrix are `pitch` bytes apart. Reads row by row,
/// because the rows are contiguous in memory.
template <ElementType Type>
KILN_AVX512 void packColumns(const char *from, int64_t pitch, int64_t extent,
                             int64_t depth, uint32_t *to, int64_t width,
                             int64_t stride) {
  constexpr int64_t bytes = Sizes<Type>::bytes;
  for (int64_t l = 0; l < depth; l += Sizes<Type>::perUnit, to += width) {
    const char *row = from + l * pitch;
    const char *below = l + 1 < depth ? row + pitch : nullptr;
    uint32_t *panel = to;
    for (int64_t i = 0; i < extent; i += width, panel += stride)
      packUnits<Type>(row + bytes * i, below ? below + bytes * i : nullptr,
                      std::min(width, extent - i), panel);
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
  if (!operand.alongRows)
    return packColumns<Type>(operand.begin + depthBegin * pitch + bytes * first,
                             pitch, extent, depth, to, width, stride);
  for (int64_t i = 0; i < extent; i += width, to += stride)
    packRows<Type>(operand.begin + (first + i) * pitch + bytes * depthBegin,
                   pitch, std::min(width, extent - i), depth, to, width);
}

/// Computes a tile of a GEMM block by block. `Kernel` has these members:
///
///   type          the element type of the operands
///   limits        the maximum extents of blocks
///   units(depth)  the number of units, including padding, of a block with
///                 `depth` elements along k
///   packLeft(operand, first, extent, begin, depth, to)
///   packRight(operand, first, extent, begin, depth, to)
///                 pack `extent` rows of op(a), or columns of op(b), from index
///                 `first` on, with the elements [begin, begin + depth) along
///                 k, to panels of limits.rows rows or limits.columns columns
///   multiply(rows, columns, units, a, b, c, ldc, accumulate)
///                 multiplies a panel of a by a panel of b
template <typename Kernel>
void multiplyBlocks(const GemmCall &call, bool isNarrowResult, char *scratch) {
  constexpr ElementType type = Kernel::type;
  constexpr abi::packed::Limits limits = Kernel::limits;
  const abi::packed::Blocks blocks(limits, call.m, call.n, call.k,
                                   abi::packed::elementBytes(type));
  auto *b = reinterpret_cast<uint32_t *>(scratch);
  uint32_t *a = b + blocks.columns * blocks.depth;
  auto *sums = reinterpret_cast<float *>(a + blocks.rows * blocks.depth);
  const Operand left{call.a, call.lda, !call.transA};
  const Operand right{call.b, call.ldb, call.transB};
  const int64_t depthStep = blocks.depth * Sizes<type>::perUnit;

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
      widenRows(type, call.c + 2 * place, call.ldc, rows, columns, c, ldc);
    for (int64_t begin = 0; begin < call.k; begin += depthStep) {
      int64_t depth = std::min(depthStep, call.k - begin);
      int64_t units = Kernel::units(depth);
      bool accumulate = call.accumulate || begin > 0;
      if (!isPacked)
        Kernel::packRight(right, column, columns, begin, depth, b);
      for (int64_t i = 0; i < rows; i += blocks.rows) {
        int64_t blockRows = std::min(blocks.rows, rows - i);
        Kernel::packLeft(left, row + i, blockRows, begin, depth, a);
        for (int64_t j = 0; j < columns; j += limits.columns) {
          int64_t panelColumns = std::min(limits.columns, columns - j);
          for (int64_t r = 0; r < blockRows; r += limits.rows) {
            int64_t panelRows = std::min(limits.rows, blockRows - r);
            Kernel::multiply(panelRows, panelColumns, units, a + r * units,
                             b + j * units, c + (i + r) * ldc + j, ldc,
                             accumulate);
          }
        }
      }
    }
    if (isNarrowResult)
      narrowRows(type, c, ldc, rows, columns, call.c + 2 * place, call.ldc);
  };
  for (int64_t column = 0; column < call.n; column += blocks.columns)
    for (int64_t row = 0; row < call.m; row += partRows)
      computePart(row, column, row > 0 && call.k <= depthStep);
}

} // namespace kiln::runtime::packed

#endif // KILN_LIB_RUNTIME_ENGINE_PACKEDGEMM_H
