//===- LowPrecisionGemm.h - Matrix products of bf16 on a cpu -------*- C++
//-*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A product whose operands are bf16, in f32 and block by block: see
// GemmWorkspace.h. What is added up is rounded once, at the end.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_LOWPRECISIONGEMM_H
#define KILN_LIB_RUNTIME_ENGINE_LOWPRECISIONGEMM_H

#include "Gemm.h"
#include "TileEpilogue.h"

namespace kiln::runtime {

/// Rows of bf16, `ld` elements apart, as rows of f32, `toLd` apart.
void widenRows(const char *from, int64_t ld, int64_t rows, int64_t columns,
               float *to, int64_t toLd);

/// The reverse, rounded to nearest even; what is not a number stays so.
void narrowRows(const float *from, int64_t fromLd, int64_t rows,
                int64_t columns, char *to, int64_t ld);

/// Computes a tile: `call.type` is bf16, and c that or f32. `scratch` has
/// narrowGemmBytes() of a product with this tile. The tile's `epilogue`, if
/// it has one, is that of sums whose result of bf16 is not yet rounded.
void lowPrecisionGemm(const GemmCall &call, ElementType resultType,
                      char *scratch,
                      const TileEpilogue &epilogue = TileEpilogue());

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_LOWPRECISIONGEMM_H
