//===- LowPrecisionGemm.h - GEMMs of bf16 and f16 on a CPU ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// GEMMs with bf16 or f16 operands, computed block by block in f32 (see
// GemmWorkspace.h). Each element of the result is rounded once, after all its
// terms have been added.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_LOWPRECISIONGEMM_H
#define KILN_LIB_RUNTIME_ENGINE_LOWPRECISIONGEMM_H

#include "Gemm.h"
#include "TileEpilogue.h"

namespace kiln::runtime {

/// Computes a tile. The operands must have type bf16 or f16, and `resultType`,
/// the type of c, must be the type of the operands or f32. `scratch` must have
/// narrowGemmBytes() bytes for a GEMM of the size of the tile. If c is narrower
/// than f32, applies `epilogue` to the f32 accumulators before they are
/// rounded.
void lowPrecisionGemm(const GemmCall &call, ElementType resultType,
                      char *scratch,
                      const TileEpilogue &epilogue = TileEpilogue());

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_LOWPRECISIONGEMM_H
