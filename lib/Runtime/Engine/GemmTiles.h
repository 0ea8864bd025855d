//===- GemmTiles.h - The tiles of a gemm command ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gemm command is cut into the tiles of its grid, and each is one call of the
// library. So the bits depend on the command alone, whoever carries it out.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_GEMMTILES_H
#define KILN_LIB_RUNTIME_ENGINE_GEMMTILES_H

#include "kiln/Runtime/Engine/Program.h"

#include <cstdint>

namespace kiln::runtime {

/// A rectangle of the result of one product of the batch.
struct GemmTile {
  int64_t product;
  int64_t rowBegin, rowEnd;
  int64_t columnBegin, columnEnd;

  bool empty() const { return rowBegin == rowEnd || columnBegin == columnEnd; }
};

/// Where the operands begin.
struct GemmPlaces {
  const char *a;
  const char *b;
  char *c;
  char *bias = nullptr; ///< Null: none.
  char *aux = nullptr;  ///< Null: none.
};

/// True if computeTile supports operands of this type.
inline bool isGemmType(ElementType type) {
  return type == ElementType::F64 || type == ElementType::F32 ||
         type == ElementType::BF16;
}

/// Number of tiles of all products.
inline int64_t gemmTiles(const Command &command) {
  return command.batch * command.gridM * command.gridN;
}

/// Tile `index` of gemmTiles(command).
GemmTile gemmTile(const Command &command, int64_t index);

/// Bytes of a command's workspace that one thread works in.
int64_t tileScratchBytes(const Command &command);

/// Computes a tile that is not empty; `scratch` has tileScratchBytes().
void computeTile(const Command &command, const GemmTile &tile,
                 const GemmPlaces &places, bool accumulate, char *scratch);

/// Writes the sums of an operand that the library adds up beside the product.
void computeBiasGrad(const Command &command, const GemmPlaces &places);

/// Whether the command adds to what c holds.
inline bool accumulates(const Command &command, int64_t iteration) {
  return command.beta == GemmBeta::One ||
         (command.beta == GemmBeta::First && iteration > 0);
}

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_GEMMTILES_H
