//===- GemmTiles.h - The tiles of a gemm command ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gemm command is split into the tiles of its grid, and one BLAS call
// computes each tile. The tiles, and therefore the result, depend only on the
// command and not on the threads or the engine that execute it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_GEMMTILES_H
#define KILN_LIB_RUNTIME_ENGINE_GEMMTILES_H

#include "kiln/Runtime/Engine/Program.h"

#include <cstdint>

namespace kiln::runtime {

/// A rectangle of the result of one matrix of the batch.
struct GemmTile {
  int64_t product;
  int64_t rowBegin, rowEnd;
  int64_t columnBegin, columnEnd;

  bool empty() const { return rowBegin == rowEnd || columnBegin == columnEnd; }
};

/// The addresses of the operands.
struct GemmPlaces {
  const char *a;
  const char *b;
  char *c;
  char *bias = nullptr; ///< Null if the GEMM has no bias.
  char *aux = nullptr;  ///< Null if the GEMM has no aux.
};

/// Returns true if computeTile supports operands of this type.
inline bool isGemmType(ElementType type) {
  return type == ElementType::F64 || type == ElementType::F32 ||
         type == ElementType::BF16;
}

/// Returns the number of tiles of all matrices of the batch.
inline int64_t gemmTiles(const Command &command) {
  return command.batch * command.gridM * command.gridN;
}

/// Returns tile `index` of gemmTiles(command).
GemmTile gemmTile(const Command &command, int64_t index);

/// Returns the bytes of a command's workspace that one thread uses.
int64_t tileScratchBytes(const Command &command);

/// Computes a nonempty tile. `scratch` has tileScratchBytes() bytes.
void computeTile(const Command &command, const GemmTile &tile,
                 const GemmPlaces &places, bool accumulate, char *scratch);

/// Writes the bias gradient: the sums of the rows of op(a) or of the columns of
/// op(b).
void computeBiasGrad(const Command &command, const GemmPlaces &places);

/// Returns true if the command adds to the previous value of c.
inline bool accumulates(const Command &command, int64_t iteration) {
  return command.beta == GemmBeta::One ||
         (command.beta == GemmBeta::First && iteration > 0);
}

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_GEMMTILES_H
