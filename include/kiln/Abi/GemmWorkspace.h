//===- GemmWorkspace.h - Scratch memory of GEMMs ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The sizes of the memory that a GEMM needs in addition to its operands. They
// depend only on the GEMM's shape, kernel and element types, so that the
// compiler plans exactly the memory that the runtime uses.
//
// With GemmKernel::Blas, a GEMM c = a b of bf16 or f16 is computed by f32
// GEMMs, because BLAS has no GEMM of bf16 or f16 for CPUs. Each tile of the
// grid is split into blocks. A thread converts a block of a and a block of b to
// f32 in its scratch memory, and BLAS multiplies the two blocks and adds the
// result to a block of c. For each block of c, the results are added in
// ascending order of k. The order of summation depends on the maximum block
// extents below and on the shape of the GEMM.
//
// With GemmKernel::Avx512 and Amx, a thread copies a block of a and a block of
// b into its scratch memory in the order in which the kernel reads them
// ("packs" them). The order of summation depends on k only.
//
// On a GPU the vendor library may split the sum over k into several partial
// sums (split-K). The library stores the partial sums in f32 in its workspace
// and then adds them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_GEMMWORKSPACE_H
#define KILN_ABI_GEMMWORKSPACE_H

#include "kiln/Abi/GemmKernel.h"
#include "kiln/Support/ElementType.h"

#include <algorithm>
#include <cstdint>

namespace kiln::abi {

/// The shape of a batched GEMM, its tile grid, and the kernel that computes its
/// tiles.
struct GemmShape {
  int64_t m, n, k, batch;
  int64_t gridM, gridN;
  GemmKernel kernel = GemmKernel::Blas;
};

/// Returns the index of the first row (or column) of tile `index` if `extent`
/// rows (or columns) are split into `tiles` tiles.
inline int64_t tileBegin(int64_t extent, int64_t tiles, int64_t index) {
  return index >= tiles ? extent : index * extent / tiles / 16 * 16;
}

/// Maximum extents of a block of a bf16 or f16 GEMM with GemmKernel::Blas. All
/// of them are multiples of 16.
inline constexpr int64_t blockRows = 256, blockColumns = 768, blockDepth = 128;

/// Returns the extent of the blocks into which one dimension (m, n or k) of a
/// tile is split. `extent` is the extent of the tile in this dimension. All
/// blocks have the returned extent, except that the last block may be smaller.
/// The result is a multiple of `unit` and at most `largest`, which must be a
/// multiple of `unit`.
inline int64_t blockExtent(int64_t extent, int64_t largest, int64_t unit = 16) {
  int64_t count = (extent + largest - 1) / largest;
  return ((extent + count - 1) / count + unit - 1) / unit * unit;
}

/// Returns an upper bound on the extent of a tile if `extent` rows (or columns)
/// are split into `tiles` tiles. A tile can be larger than the average tile by
/// up to 16 rows, because tileBegin() rounds down to multiples of 16.
inline int64_t maxTileExtent(int64_t extent, int64_t tiles) {
  return std::min(extent, extent / tiles + 16);
}

/// Returns the scratch bytes that one thread needs for any tile of a GEMM of
/// bf16 or f16 with GemmKernel::Blas: an f32 block of a, an f32 block of b, and
/// an f32 block of c if the result is narrower than f32.
inline int64_t narrowGemmBytes(const GemmShape &shape, bool narrowResult) {
  auto largest = [](int64_t extent, int64_t tiles, int64_t block) {
    return std::min((maxTileExtent(extent, tiles) + 15) / 16 * 16, block);
  };
  int64_t m = largest(shape.m, shape.gridM, blockRows);
  int64_t n = largest(shape.n, shape.gridN, blockColumns);
  int64_t k = largest(shape.k, 1, blockDepth);
  return 4 * (m * k + k * n + (narrowResult ? m * n : 0));
}

/// The blocks of a GEMM with GemmKernel::Avx512 or Amx. Operands are packed in
/// units of four bytes. A unit is one f32, one f16 converted to f32, or two
/// bf16 that are consecutive along k.
namespace packed {

/// The numbers of rows of a and columns of b that the inner loop multiplies,
/// and the maximum extents of a block.
struct Limits {
  int64_t rows, columns;
  int64_t blockRows, blockColumns;
  int64_t blockDepth; ///< In units of four bytes.

  /// Maximum number of rows of c whose f32 sums are in scratch memory at a time
  /// if the result is narrower than f32.
  constexpr int64_t sumRows() const { return 2 * blockRows; }
};

/// With AVX-512, the inner loop keeps the sums in 28 of the 32 vector
/// registers. A panel of `columns` columns of b has at most 48 KiB, the size of
/// a typical L1 cache. A block of a and a block of b together have at most 1.4
/// MiB, so that both fit into an L2 cache of 2 MiB.
inline constexpr Limits avx512 = {14, 32, 12 * 14, 24 * 32, 384};
/// With AMX, the inner loop keeps the sums in 4 of the 8 tile registers, each
/// of which has 16 rows of 16 units. The depth of a block is a multiple of 16,
/// so that it consists of whole tiles.
inline constexpr Limits amx = {32, 32, 8 * 32, 24 * 32, 256};

inline constexpr const Limits &limitsOf(GemmKernel kernel) {
  return kernel == GemmKernel::Amx ? amx : avx512;
}

/// Returns the bytes of an element of an operand of `type` after packing.
inline int64_t elementBytes(support::ElementType type) {
  return type == support::ElementType::BF16 ? 2 : 4;
}

/// The extents of the blocks of one tile.
struct Blocks {
  int64_t rows, columns;
  int64_t depth; ///< In units of four bytes.
  int64_t sumRows;

  /// `elementBytes` is the size of a packed element.
  Blocks(const Limits &limits, int64_t m, int64_t n, int64_t k,
         int64_t elementBytes)
      : rows(blockExtent(m, limits.blockRows, limits.rows)),
        columns(blockExtent(n, limits.blockColumns, limits.columns)),
        depth(blockExtent((k * elementBytes + 3) / 4, limits.blockDepth)),
        sumRows(std::min(m, limits.sumRows())) {}

  /// Returns the size of the scratch memory of one thread, in units of four
  /// bytes.
  int64_t scratch(bool narrowResult) const {
    return (rows + columns) * depth + (narrowResult ? sumRows * columns : 0);
  }
};
} // namespace packed

/// Returns the scratch bytes that one thread needs for any tile of a GEMM with
/// GemmKernel::Avx512 or Amx: a packed block of a, a packed block of b, and f32
/// sums if the result is narrower than f32.
inline int64_t packedGemmBytes(const GemmShape &shape,
                               support::ElementType operands,
                               bool narrowResult) {
  int64_t m = maxTileExtent(shape.m, shape.gridM);
  int64_t n = maxTileExtent(shape.n, shape.gridN);
  const packed::Limits &limits = packed::limitsOf(shape.kernel);
  packed::Blocks blocks(limits, m, n, shape.k, packed::elementBytes(operands));
  // The tiles of a grid differ in size, and the blocks of a smaller tile can be
  // larger than the blocks of a larger tile. Therefore use extents that are
  // upper bounds for all tiles.
  auto largest = [](int64_t extent, int64_t unit, int64_t block) {
    return std::min((extent + unit - 1) / unit * unit, block);
  };
  blocks.rows = largest(m, limits.rows, limits.blockRows);
  blocks.columns = largest(n, limits.columns, limits.blockColumns);
  return 4 * blocks.scratch(narrowResult);
}

/// Returns the scratch bytes that one thread of a CPU needs for any tile of a
/// GEMM.
inline int64_t tileScratchBytes(const GemmShape &shape,
                                support::ElementType operands,
                                support::ElementType result) {
  bool narrowResult = support::isNarrowFloat(result);
  if (shape.kernel != GemmKernel::Blas)
    return packedGemmBytes(shape, operands, narrowResult);
  return support::isNarrowFloat(operands) ? narrowGemmBytes(shape, narrowResult)
                                          : 0;
}

/// Returns the workspace bytes that the vendor library of a GPU may use for a
/// GEMM: min(p, v), where p is the size of the split-K partial sums of all
/// result elements, and v is the size that the vendor recommends. Returns 0 if
/// k is too small for split-K.
inline int64_t gemmWorkspaceBytes(const GemmShape &shape) {
  constexpr int64_t most = int64_t(32) << 20, shortestPart = 256,
                    mostParts = 32;
  int64_t parts = std::min(shape.k / shortestPart, mostParts);
  if (parts < 2)
    return 0;
  // Multiply in floating point, because the number of bytes may exceed 64 bits.
  double bytes = 4. * double(shape.m) * double(shape.n) * double(shape.batch) *
                 double(parts);
  return bytes < double(most) ? int64_t(bytes) : most;
}

} // namespace kiln::abi

#endif // KILN_ABI_GEMMWORKSPACE_H
