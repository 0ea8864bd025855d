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

/// Returns true if this processor has the instructions that avx512Gemm() needs
/// for operands of `type`, f32, f16 or bf16.
bool hasAvx512Gemm(ElementType type);

/// Computes a tile. The operands must have type f32, f16 or bf16, and
/// `resultType`, the type of c, must be f32 or that of the operands. `scratch`
/// must have packedGemmBytes() bytes for a GEMM of the size of the tile and
/// must be aligned to 64 bytes. Requires hasAvx512Gemm(call.type).
///
/// Each element of the result is the sum of partial sums over blocks of k,
/// added in ascending order and in f32 to the previous value of c if
/// `call.accumulate`, and rounded once. A partial sum of f32 or f16 operands
/// adds one rounded multiply-add after another. A partial sum of bf16 operands
/// adds pairs of products with the instruction VDPBF16PS, which flushes
/// denormals.
void avx512Gemm(const GemmCall &call, ElementType resultType, char *scratch);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_AVX512GEMM_H
