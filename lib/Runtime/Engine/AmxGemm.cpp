//===- AmxGemm.cpp - GEMMs of bf16 with AMX -------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A tile register has 16 rows of 16 units of four bytes. The inner loop
// multiplies 2 x 1 tiles of a by 1 x 2 tiles of b, and keeps the sums in 2 x 2
// tiles. In a packed panel of a, each tile is contiguous, and the tiles of the
// same rows are adjacent, in order of k. A packed panel of b has the layout of
// the AVX-512 kernel: 32 columns, whose units with the same index along k are
// contiguous. Panels are padded with zeros along k to whole tiles.
//
//===----------------------------------------------------------------------===//

#include "AmxGemm.h"

#include "Avx512Gemm.h"
#include "PackedGemm.h"

#include <cpuid.h>
#include <cstring>
#include <sys/syscall.h>
#include <unistd.h>

using namespace kiln::runtime::packed;

#define KILN_AMX                                                               \
  __attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,amx-tile,"         \
                        "amx-bf16")))

namespace kiln::runtime {

static bool mayUseTiles() {
  unsigned eax, ebx, ecx, edx;
  constexpr unsigned amxBf16 = 1u << 22, amxTile = 1u << 24;
  if (!__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) || !(edx & amxBf16) ||
      !(edx & amxTile))
    return false;
  // Linux lets a process use the tile registers only after this request.
  constexpr long requestPermission = 0x1023, tileData = 18;
  return syscall(SYS_arch_prctl, requestPermission, tileData) == 0;
}

bool hasAmxGemm(ElementType type) {
  static const bool hasTiles =
      hasAvx512Gemm(ElementType::BF16) && mayUseTiles();
  return type == ElementType::BF16 && hasTiles;
}

namespace {

/// The memory format of the instruction LDTILECFG.
struct alignas(64) TileConfig {
  uint8_t palette = 1, startRow = 0;
  uint8_t reserved[14] = {};
  uint16_t rowBytes[16] = {};
  uint8_t rows[16] = {};
};

/// A tile has `side` rows, and each row has `side` units of four bytes.
constexpr int64_t side = lanes, tileUnits = side * side;

/// Computes `Rows` x `Columns` tiles of c from a panel of a and a panel of b
/// with `units` units along k. `ldc` is in elements.
template <int Rows, int Columns>
KILN_AMX void multiplyTiles(int64_t units, const uint32_t *a, const uint32_t *b,
                            float *c, int64_t ldc, bool accumulate) {
  constexpr int64_t pitchB = 4 * abi::packed::amx.columns;
  const int64_t pitchC = 4 * ldc;
  if (accumulate) {
    _tile_loadd(0, c, pitchC);
    if constexpr (Columns == 2)
      _tile_loadd(1, c + side, pitchC);
    if constexpr (Rows == 2)
      _tile_loadd(2, c + side * ldc, pitchC);
    if constexpr (Rows == 2 && Columns == 2)
      _tile_loadd(3, c + side * ldc + side, pitchC);
  } else {
    _tile_zero(0);
    if constexpr (Columns == 2)
      _tile_zero(1);
    if constexpr (Rows == 2)
      _tile_zero(2);
    if constexpr (Rows == 2 && Columns == 2)
      _tile_zero(3);
  }
  for (int64_t unit = 0; unit < units; unit += side) {
    _tile_loadd(4, a, 4 * side);
    _tile_loadd(6, b, pitchB);
    _tile_dpbf16ps(0, 4, 6);
    if constexpr (Columns == 2) {
      _tile_loadd(7, b + side, pitchB);
      _tile_dpbf16ps(1, 4, 7);
    }
    if constexpr (Rows == 2) {
      _tile_loadd(5, a + side * units, 4 * side);
      _tile_dpbf16ps(2, 5, 6);
    }
    if constexpr (Rows == 2 && Columns == 2)
      _tile_dpbf16ps(3, 5, 7);
    a += tileUnits;
    b += side * abi::packed::amx.columns;
  }
  _tile_stored(0, c, pitchC);
  if constexpr (Columns == 2)
    _tile_stored(1, c + side, pitchC);
  if constexpr (Rows == 2)
    _tile_stored(2, c + side * ldc, pitchC);
  if constexpr (Rows == 2 && Columns == 2)
    _tile_stored(3, c + side * ldc + side, pitchC);
}

/// Packs `rows` rows of op(a), at most 16, with `depth` elements along k.
KILN_AVX512 void packTiles(const Operand &a, const char *from, int64_t rows,
                           int64_t depth, uint32_t *to) {
  constexpr ElementType bf16 = ElementType::BF16;
  const int64_t pitch = 2 * a.ld;
  for (int64_t k = 0; k < depth; k += 2 * side, to += tileUnits) {
    int64_t elements = std::min(depth - k, 2 * side);
    if (a.alongRows) {
      for (int64_t i = 0; i < rows; ++i)
        _mm512_store_si512(to + i * side,
                           readUnits<bf16>(from + i * pitch + 2 * k, elements));
      continue;
    }
    // Column i of the packed columns becomes row i of the tile.
    alignas(64) uint32_t columns[tileUnits] = {};
    packColumns<bf16>(from + k * pitch, pitch, rows, elements, columns, side,
                      /*stride=*/0);
    __m512i block[side];
    for (int64_t i = 0; i < side; ++i)
      block[i] = _mm512_load_si512(columns + i * side);
    transpose(block);
    for (int64_t i = 0; i < rows; ++i)
      _mm512_store_si512(to + i * side, block[i]);
  }
}

/// See multiplyBlocks().
struct AmxKernel {
  static constexpr ElementType type = ElementType::BF16;
  static constexpr abi::packed::Limits limits = abi::packed::amx;

  static int64_t units(int64_t depth) {
    return (depth + 2 * side - 1) / (2 * side) * side;
  }

  static void packLeft(const Operand &a, int64_t first, int64_t extent,
                       int64_t begin, int64_t depth, uint32_t *to) {
    for (int64_t i = 0; i < extent; i += side, to += side * units(depth)) {
      int64_t row = first + i;
      const char *from =
          a.begin + 2 * (a.alongRows ? row * a.ld + begin : begin * a.ld + row);
      packTiles(a, from, std::min(side, extent - i), depth, to);
    }
  }

  static void packRight(const Operand &b, int64_t first, int64_t extent,
                        int64_t begin, int64_t depth, uint32_t *to) {
    const int64_t whole = units(depth), used = (depth + 1) / 2;
    const int64_t stride = limits.columns * whole;
    packPanels<type>(b, first, extent, begin, depth, to, limits.columns,
                     stride);
    if (used < whole)
      for (int64_t i = 0; i < extent; i += limits.columns, to += stride)
        std::memset(to + limits.columns * used, 0,
                    size_t(4 * limits.columns * (whole - used)));
  }

  static void multiply(int64_t rows, int64_t columns, int64_t units,
                       const uint32_t *a, const uint32_t *b, float *c,
                       int64_t ldc, bool accumulate) {
    if (rows == limits.rows && columns == limits.columns)
      return multiplyTiles<2, 2>(units, a, b, c, ldc, accumulate);
    // Tiles that extend over the edge of c are computed in a copy.
    alignas(64) float copy[limits.rows * limits.columns];
    auto forEachRow = [&](auto visit) {
      for (int64_t i = 0; i < rows; ++i)
        visit(c + i * ldc, copy + i * limits.columns);
    };
    if (accumulate)
      forEachRow([&](float *row, float *its) {
        std::memcpy(its, row, size_t(4 * columns));
      });
    auto tiles =
        rows > side ? columns > side ? multiplyTiles<2, 2> : multiplyTiles<2, 1>
        : columns > side ? multiplyTiles<1, 2>
                         : multiplyTiles<1, 1>;
    tiles(units, a, b, copy, limits.columns, accumulate);
    forEachRow([&](float *row, const float *its) {
      std::memcpy(row, its, size_t(4 * columns));
    });
  }
};

KILN_AMX void configureTiles() {
  TileConfig config;
  for (int tile = 0; tile < 8; ++tile) {
    config.rowBytes[tile] = 4 * side;
    config.rows[tile] = side;
  }
  _tile_loadconfig(&config);
}

KILN_AMX void releaseTiles() { _tile_release(); }

} // namespace

void amxGemm(const GemmCall &call, ElementType resultType, char *scratch) {
  configureTiles();
  multiplyBlocks<AmxKernel>(call, isNarrowFloat(resultType), scratch);
  // While the tile registers are in use, a context switch saves 8 KiB more.
  releaseTiles();
}

} // namespace kiln::runtime
