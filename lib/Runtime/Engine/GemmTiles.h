//===- GemmTiles.h - The tiles of a gemm command ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The result of a gemm command is split into a grid of tiles, and the tiles are
// computed independently. The grid depends only on the command, and not on the
// number of threads or on the engine. Therefore the result does not depend on
// them either.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_GEMMTILES_H
#define KILN_LIB_RUNTIME_ENGINE_GEMMTILES_H

#include "kiln/Runtime/Engine/Program.h"

#include <cstdint>

namespace kiln::runtime {

/// A rectangle of one result matrix, the one with the index `product` in the
/// batch.
struct GemmTile {
  int64_t product;
  int64_t rowBegin, rowEnd;
  int64_t columnBegin, columnEnd;

  bool empty() const { return rowBegin == rowEnd || columnBegin == columnEnd; }
};

/// The addresses of the operands and results.
struct GemmPlaces {
  const char *a;
  const char *b;
  char *c;
  char *bias = nullptr; ///< Null if the GEMM has no bias.
  char *aux = nullptr;  ///< Null if the GEMM has no aux tensor.
};

/// Returns true if computeTile supports operands of this type.
inline bool isGemmType(ElementType type) {
  return type == ElementType::F64 || type == ElementType::F32 ||
         type == ElementType::BF16 || type == ElementType::F16;
}

/// Returns the number of tiles of all matrices of the batch.
inline int64_t gemmTiles(const Command &command) {
  return command.batch * command.gridM * command.gridN;
}

/// Returns tile `index` of the command, 0 <= index < gemmTiles(command).
GemmTile gemmTile(const Command &command, int64_t index);

/// Returns how many bytes of the command's workspace each thread uses.
int64_t tileScratchBytes(const Command &command);

/// Computes a nonempty tile. `scratch` must have tileScratchBytes() bytes.
void computeTile(const Command &command, const GemmTile &tile,
                 const GemmPlaces &places, bool accumulate, char *scratch);

/// Writes the bias gradient. Element i is the sum of row i of op(a) or the sum
/// of column i of op(b), depending on the epilogue.
void computeBiasGrad(const Command &command, const GemmPlaces &places);

/// Returns true if the command adds to the previous value of c.
inline bool accumulates(const Command &command, const abi::SegmentRun &run) {
  return command.beta == GemmBeta::One ||
         (command.beta == GemmBeta::First && !run.isFirst);
}

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_GEMMTILES_H
