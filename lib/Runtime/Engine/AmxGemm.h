//===- AmxGemm.h - GEMMs of bf16 with AMX -----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The GEMMs of GemmKernel::Amx. The instructions are those of chapter 3 of the
// "Intel Architecture Instruction Set Extensions Programming Reference".
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_AMXGEMM_H
#define KILN_LIB_RUNTIME_ENGINE_AMXGEMM_H

#include "Gemm.h"

namespace kiln::runtime {

/// Returns true if `type` is bf16, and this processor has AMX-BF16 and
/// everything that avx512Gemm() needs for bf16. The first call asks the system
/// to permit this process to use the tile registers, and the result is false if
/// the system refuses.
bool hasAmxGemm(ElementType type);

/// Computes a tile, with the arguments of avx512Gemm(). The operands must have
/// type bf16. Requires hasAmxGemm(call.type).
///
/// Each element of the result is a sum over groups of 32 elements along k. The
/// sum of a group is the sum of the 16 products with even indices plus the sum
/// of the 16 products with odd indices; both are sequences of fused
/// multiply-adds. The sums of the groups are added, in ascending order of k, to
/// the previous value of c if `call.accumulate`, and otherwise to zero. All of
/// these operations round to f32 and flush denormals (instruction TDPBF16PS).
/// The total is rounded once to `resultType`.
void amxGemm(const GemmCall &call, ElementType resultType, char *scratch);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_AMXGEMM_H
