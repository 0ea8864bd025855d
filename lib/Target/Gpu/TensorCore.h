//===- TensorCore.h - What a warp does as a whole ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Matrix products of bf16 with sums in f32, on tensor cores of sm_80 and newer,
// and what feeds them. All lanes of a warp arrive together. A word is an i32
// that holds two neighbouring elements of a row, the lower one first. Lane l
// has g = l / 4 and t = l % 4:
//
//   a, 16 x 16   4 words: rows g, g + 8, g, g + 8; columns 2t, 2t, 2t + 8,
//                2t + 8 and the next
//   b, 16 x 8    2 words: column g, rows 2t and 2t + 8 and the next
//   sums, 16 x 8 4 values of f32: (g, 2t), (g, 2t + 1), (g + 8, 2t),
//                (g + 8, 2t + 1)
//
// So the sums of two products side by side, packed, are the a of another.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_TENSORCORE_H
#define KILN_LIB_TARGET_GPU_TENSORCORE_H

#include "GpuBuilder.h"

#include <array>

namespace kiln::gpu {

using FourValues = std::array<mlir::Value, 4>;

/// sums + a b.
FourValues multiplyAdd(GpuBuilder &k, llvm::ArrayRef<mlir::Value> a,
                       llvm::ArrayRef<mlir::Value> b, const FourValues &sums);

/// Words of four matrices of 8 x 8 elements in shared memory. `row`: of this
/// lane, the row l % 8 of matrix l / 8, 16 bytes and so aligned. Word m is
/// {M[g][2t], M[g][2t + 1]} of matrix m, or of its transpose.
FourValues loadMatrices(GpuBuilder &k, mlir::Value row, bool isTransposed);

/// Begins a copy of `bytes` (4, 8 or 16; both sides are so aligned) from global
/// to shared memory. Of these `present` (i32; null: all) are read, and zeros
/// follow. Only the thread's waitCopies makes sure that they are there.
void copyAsync(GpuBuilder &k, mlir::Value to, mlir::Value from, int64_t bytes,
               mlir::Value present);
/// Waits for all copies that the thread began.
void waitCopies(GpuBuilder &k);

/// 2^x with an error of 2 units in the last place, 0 if that is below 2^-126.
mlir::Value exp2(GpuBuilder &k, mlir::Value x);
/// The larger one; of NaN and a number the number.
mlir::Value larger(GpuBuilder &k, mlir::Value x, mlir::Value y);

/// The word of two values of f32, rounded to bf16.
mlir::Value packWord(GpuBuilder &k, mlir::Value low, mlir::Value high);
/// The elements of a word, as f32.
std::array<mlir::Value, 2> unpackWord(GpuBuilder &k, mlir::Value word);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_TENSORCORE_H
