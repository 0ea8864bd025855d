//===- VectorMath.h - Elementary functions of cpu kernels -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each function emits its formula for a scalar or a 16-lane vector: the same
// operations, so the same bits. In f32 they are polynomials with explicit fma
// (errors in units in the last place, tested); in f64 they call the C library
// lane by lane, for f64 is there to check, not to be fast. NaN in gives NaN
// out.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_CPU_VECTORMATH_H
#define KILN_LIB_TARGET_CPU_VECTORMATH_H

#include "KernelBuilder.h"

#include <array>

namespace kiln::cpu {

/// 1.5 ulp where the result is at least 2^-125, zero below, infinity above
/// the largest float: exp(-inf) is exactly 0.
mlir::Value emitExp(KernelBuilder &k, mlir::Value x);
/// -inf at 0, NaN below.
mlir::Value emitLog(KernelBuilder &k, mlir::Value x);
mlir::Value emitTanh(KernelBuilder &k, mlir::Value x);
/// 1 / (1 + exp(-x)).
mlir::Value emitSigmoid(KernelBuilder &k, mlir::Value x);
mlir::Value emitErf(KernelBuilder &k, mlir::Value x);

/// The key of the random numbers of an op, all i64: kiln::splitmix64 (Rng.h) of
/// seed + 0x9E3779B97F4A7C15 * (key + 1).
mlir::Value emitRandomKey(KernelBuilder &k, mlir::Value seed, mlir::Value key);

/// Random bits of 64 consecutive columns as four vectors of i32: column 16*v +
/// j of the block is lane j of vector v. Philox4x32-10 with counter (block * 16
/// + j, counter1, counter2, counter3), output word v. All arguments are i64;
/// counters are used modulo 2^32.
std::array<mlir::Value, 4> emitRandomBlock(KernelBuilder &k, mlir::Value key,
                                           mlir::Value block,
                                           mlir::Value counter1,
                                           mlir::Value counter2,
                                           mlir::Value counter3);

/// The random bits of one element, an i32: those of column 0 with the same
/// counters.
mlir::Value emitRandomWord(KernelBuilder &k, mlir::Value key,
                           mlir::Value counter1, mlir::Value counter2,
                           mlir::Value counter3);

} // namespace kiln::cpu

#endif // KILN_LIB_TARGET_CPU_VECTORMATH_H
