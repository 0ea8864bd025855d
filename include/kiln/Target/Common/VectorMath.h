//===- VectorMath.h - Elementary functions of kernels -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each function emits its formula for a scalar or a vector: the same
// operations, so the same bits on every target. In f32 they are polynomials
// with explicit fma (errors in units in the last place, tested); in f64 they
// call the C library lane by lane, where the target has one, for f64 is there
// to check, not to be fast. NaN in gives NaN out.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_VECTORMATH_H
#define KILN_TARGET_COMMON_VECTORMATH_H

#include "kiln/Target/Common/ArithBuilder.h"

#include <array>

namespace kiln {

/// 1.5 ulp where the result is at least 2^-125, zero below, infinity above
/// the largest float: exp(-inf) is exactly 0.
mlir::Value emitExp(ArithBuilder &k, mlir::Value x);
/// -inf at 0, NaN below.
mlir::Value emitLog(ArithBuilder &k, mlir::Value x);
mlir::Value emitTanh(ArithBuilder &k, mlir::Value x);
/// 1 / (1 + exp(-x)).
mlir::Value emitSigmoid(ArithBuilder &k, mlir::Value x);
mlir::Value emitErf(ArithBuilder &k, mlir::Value x);

/// The key of the random numbers of an op, all i64: kiln::splitmix64 (Rng.h) of
/// seed + 0x9E3779B97F4A7C15 * (key + 1).
mlir::Value emitRandomKey(ArithBuilder &k, mlir::Value seed, mlir::Value key);

/// Philox4x32-10 of counters that are all scalars or all vectors of i64; key is
/// a scalar. Words live in the low halves: the product of two is one
/// instruction, and what the high halves hold does not matter until the end.
std::array<mlir::Value, 4> emitPhilox(ArithBuilder &k, mlir::Value key,
                                      std::array<mlir::Value, 4> c);

/// For builders of 16 lanes: random bits of 64 consecutive columns as four
/// vectors of i32: column 16*v + j of the block is lane j of vector v.
/// Philox4x32-10 with counter (block * 16
/// + j, counter1, counter2, counter3), output word v. All arguments are i64;
/// counters are used modulo 2^32.
std::array<mlir::Value, 4> emitRandomBlock(ArithBuilder &k, mlir::Value key,
                                           mlir::Value block,
                                           mlir::Value counter1,
                                           mlir::Value counter2,
                                           mlir::Value counter3);

/// The random bits of one element, an i32: those of column 0 with the same
/// counters.
mlir::Value emitRandomWord(ArithBuilder &k, mlir::Value key,
                           mlir::Value counter1, mlir::Value counter2,
                           mlir::Value counter3);

} // namespace kiln

#endif // KILN_TARGET_COMMON_VECTORMATH_H
