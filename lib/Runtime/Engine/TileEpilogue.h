//===- TileEpilogue.h - Emulated vendor epilogues of GEMM tiles -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emulates the GEMM epilogues of a GPU's vendor library. Before the f32
// accumulators are rounded to the type of the result, an epilogue adds a bias
// to them and may apply GELU, or it multiplies them by the derivative of GELU.
// GELU is computed in f64 and rounded to f32.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_TILEEPILOGUE_H
#define KILN_LIB_RUNTIME_ENGINE_TILEEPILOGUE_H

#include "kiln/Abi/GemmEpilogue.h"
#include "kiln/Support/ElementType.h"

#include <cstdint>

namespace kiln::runtime {

struct TileEpilogue {
  abi::GemmEpilogue kind = abi::GemmEpilogue::None;
  /// Element type of `bias` and `aux`: f32, bf16 or f16.
  ElementType type = ElementType::F32;
  const char *bias = nullptr; ///< The bias of the tile's first column.
  /// The aux element for the first row and column of the tile.
  char *aux = nullptr;
  int64_t auxLd = 0;

  /// Returns the epilogue of the part of this tile that begins at the given row
  /// and column.
  TileEpilogue at(int64_t row, int64_t column) const;
};

/// Applies the epilogue to `sums`, the f32 accumulators of a tile with leading
/// dimension `ld`.
void finishTile(const TileEpilogue &epilogue, int64_t rows, int64_t columns,
                char *sums, int64_t ld);

/// Read or write an f32, bf16 or f16 element.
float readElement(const char *begin, ElementType type, int64_t index);
void writeElement(char *begin, ElementType type, int64_t index, float value);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_TILEEPILOGUE_H
