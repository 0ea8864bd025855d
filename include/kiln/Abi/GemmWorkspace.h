//===- GemmWorkspace.h - Scratch memory of GEMMs ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The results of the functions below depend only on a GEMM's shape, so that the
// compiler plans exactly the memory that the runtime uses.
//
// BLAS has no bf16 GEMM for CPUs. Therefore c = a b is computed by f32 GEMMs:
// each tile of the grid is split into blocks. A thread converts a block of a
// and a block of b to f32 in its scratch memory, and BLAS adds the matmul of
// the two blocks to a block of c. For each block of c, the blocks are added in
// ascending order of k. The order of summation depends on the maximum block
// extents below and on the shape of the GEMM.
//
// On a GPU the vendor library may split the sum over k into several partial
// sums (split-K). The library stores the partial sums in f32 in its workspace
// and then adds them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_GEMMWORKSPACE_H
#define KILN_ABI_GEMMWORKSPACE_H

#include <algorithm>
#include <cstdint>

namespace kiln::abi {

/// The shape of a batched GEMM and its tile grid.
struct GemmShape {
  int64_t m, n, k, batch;
  int64_t gridM, gridN;
};

/// Returns the index of the first row (or column) of tile `index` if `extent`
/// rows (or columns) are split into `tiles` tiles.
inline int64_t tileBegin(int64_t extent, int64_t tiles, int64_t index) {
  return index >= tiles ? extent : index * extent / tiles / 16 * 16;
}

/// Maximum extents of a block of a bf16 GEMM, multiples of 16.
inline constexpr int64_t blockRows = 256, blockColumns = 768, blockDepth = 128;

/// Returns the extent of the blocks into which one dimension (m, n or k) of a
/// tile is split. `extent` is the extent of the tile in this dimension. All
/// blocks have the returned extent, except that the last block may be smaller.
/// The result is at most `largest`, which must be a multiple of 16.
inline int64_t blockExtent(int64_t extent, int64_t largest) {
  int64_t count = (extent + largest - 1) / largest;
  return ((extent + count - 1) / count + 15) / 16 * 16;
}

/// Returns the scratch bytes that one thread needs for any tile of a bf16 GEMM:
/// an f32 block of a, an f32 block of b, and an f32 block of c if the result is
/// narrower than f32.
inline int64_t narrowGemmBytes(const GemmShape &shape, bool narrowResult) {
  // tileBegin() rounds to multiples of 16, so a tile has at most extent / tiles
  // + 16 rows or columns.
  auto largest = [](int64_t extent, int64_t tiles, int64_t block) {
    int64_t tile = std::min(extent, extent / tiles + 16);
    return std::min((tile + 15) / 16 * 16, block);
  };
  int64_t m = largest(shape.m, shape.gridM, blockRows);
  int64_t n = largest(shape.n, shape.gridN, blockColumns);
  int64_t k = largest(shape.k, 1, blockDepth);
  return 4 * (m * k + k * n + (narrowResult ? m * n : 0));
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
