//===- TileEpilogue.h - What is done with the sums of a tile ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the library of a GPU does in its epilogue, for what stands in for it:
// sums of f32 get their bias, and gelu or its derivative, before they are
// rounded to the result's type. Gelu is computed in f64 and rounded to f32.
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
  ElementType type = ElementType::F32; ///< Of bias and aux: f32 or bf16.
  const char *bias = nullptr;          ///< Of the tile's first column.
  char *aux = nullptr;                 ///< Of the tile's first element.
  int64_t auxLd = 0;

  /// That of a tile which begins so much further on.
  TileEpilogue at(int64_t row, int64_t column) const;
};

/// Carries the epilogue out for `rows` rows of `columns` sums of f32, which
/// begin `ld` elements apart.
void finishTile(const TileEpilogue &epilogue, int64_t rows, int64_t columns,
                char *sums, int64_t ld);

/// An element of f32 or bf16.
float readElement(const char *begin, ElementType type, int64_t index);
void writeElement(char *begin, ElementType type, int64_t index, float value);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_TILEEPILOGUE_H
