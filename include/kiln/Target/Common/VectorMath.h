//===- VectorMath.h - Elementary functions of kernels -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each function emits its formula for a scalar or a vector. The operations are
// the same on every target, so the results are bitwise equal. The f32 formulas
// are polynomials with explicit fma; tests bound their ULP error. The f64
// formulas call the C library once per lane, on targets that have one, because
// f64 is for verification and need not be fast. NaN inputs give NaN results.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_VECTORMATH_H
#define KILN_TARGET_COMMON_VECTORMATH_H

#include "kiln/Target/Common/ArithBuilder.h"

#include <array>

namespace kiln {

/// Emits exp(x) with an error of at most 1.5 ULP if the result is at least
/// 2^-125. Smaller results may be flushed to zero, and results above the
/// largest float are infinity. exp(-inf) is exactly 0.
mlir::Value emitExp(ArithBuilder &k, mlir::Value x);
/// Emits log(x): -inf for 0, NaN for negative x.
mlir::Value emitLog(ArithBuilder &k, mlir::Value x);
mlir::Value emitTanh(ArithBuilder &k, mlir::Value x);
/// Emits 1 / (1 + exp(-x)).
mlir::Value emitSigmoid(ArithBuilder &k, mlir::Value x);
mlir::Value emitErf(ArithBuilder &k, mlir::Value x);

/// Emits the key of the random numbers of an op: kiln::splitmix64 (Rng.h) of
/// seed + 0x9E3779B97F4A7C15 * (key + 1). All values are i64.
mlir::Value emitRandomKey(ArithBuilder &k, mlir::Value seed, mlir::Value key);

/// Emits Philox4x32-10 for counters that are all i64 scalars or all vectors of
/// i64; the key is a scalar. The results are i32. Internally, each 32-bit word
/// is the low half of an i64, so that one instruction computes the 64-bit
/// product of two words. The high half may have any value.
std::array<mlir::Value, 4> emitPhilox(ArithBuilder &k, mlir::Value key,
                                      std::array<mlir::Value, 4> c);

/// Emits the random bits of 64 consecutive columns as four i32 vectors: column
/// 16*v + j of the block is lane j of vector v. This lane is output word v of
/// Philox4x32-10 with the counter (block * 16 + j, counter1, counter2,
/// counter3). All arguments are i64; counters are used modulo 2^32. Requires a
/// builder of 16 lanes.
std::array<mlir::Value, 4> emitRandomBlock(ArithBuilder &k, mlir::Value key,
                                           mlir::Value block,
                                           mlir::Value counter1,
                                           mlir::Value counter2,
                                           mlir::Value counter3);

/// Emits 32 random bits as an i32. They equal the bits of column 0 in
/// emitRandomBlock for block 0 and the same counters.
mlir::Value emitRandomWord(ArithBuilder &k, mlir::Value key,
                           mlir::Value counter1, mlir::Value counter2,
                           mlir::Value counter3);

/// The key and the counter words of the random bits of a row, all i64. A kernel
/// sets the first three values once, and the others for each row.
struct RandomSource {
  mlir::Value key, step, firstSequence;
  mlir::Value rowInSequence, sequence;

  /// Sets `rowInSequence` and `sequence`, which are counter words of the random
  /// number generator, for row `number`. Row 0 is the first row of sequence
  /// `firstSequence`. Each sequence has `rowsPerSequence` rows.
  void startRow(ArithBuilder &k, mlir::Value number, int64_t rowsPerSequence);
};

} // namespace kiln

#endif // KILN_TARGET_COMMON_VECTORMATH_H
