//===- Avx512Gemm.h - GEMMs with AVX-512 ------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The GEMMs of GemmKernel::Avx512. They need no memory besides the scratch
// memory that the compiler plans, and read narrow operands without widening
// them. The structure is that of K. Goto and R. van de Geijn, "Anatomy of
// High-Performance Matrix Multiplication", 2008.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_AVX512GEMM_H
#define KILN_LIB_RUNTIME_ENGINE_AVX512GEMM_H

#include "Gemm.h"

namespace kiln::runtime {

/// Returns true if `type` is f32, f16 or bf16, and this processor has the
/// instructions that avx512Gemm() needs for operands of this type.
bool hasAvx512Gemm(ElementType type);

/// Computes a tile. The operands must have type f32, f16 or bf16, and
/// `resultType`, the type of c, must be f32 or the type of the operands.
/// `scratch` must have packedGemmBytes() bytes for a GEMM of the size of the
/// tile and must be aligned to 64 bytes. Requires hasAvx512Gemm(call.type).
///
/// Each element of the result is a sum of partial sums over blocks of k. The
/// partial sums are added in f32, in ascending order of k, to the previous
/// value of c if `call.accumulate`. The total is rounded once to `resultType`.
/// For f32 and f16 operands, a partial sum is a sequence of fused multiply-adds
/// that each round to f32. For bf16 operands, a partial sum adds pairs of
/// products with the instruction VDPBF16PS, which flushes denormals.
void avx512Gemm(const GemmCall &call, ElementType resultType, char *scratch);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_AVX512GEMM_H
