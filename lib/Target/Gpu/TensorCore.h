//===- TensorCore.h - Tensor core operations of a warp ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits bf16 and f16 MMAs with f32 accumulators on tensor cores of sm_80 and
// newer, and the loads and copies that feed them. All lanes of a warp execute
// these operations together. A word is an i32 that holds two elements, the
// first one in its low bits: (r, c) and (r, c + 1) of the operand a, or (r, c)
// and (r + 1, c) of the operand b, where r is a row and c a column. Lane l has
// g = l / 4 and t = l % 4. The fragments of a lane, given by the first elements
// of their words, are:
//
//   a, 16 x 16    4 words: (g, 2t), (g + 8, 2t), (g, 2t + 8), (g + 8, 2t + 8)
//   b, 16 x 8     2 words: (2t, g), (2t + 8, g)
//   sums, 16 x 8  4 f32 values: (g, 2t), (g, 2t + 1), (g + 8, 2t),
//                 (g + 8, 2t + 1)
//
// The sums of two horizontally adjacent MMAs, packed to words, are thus the
// `a` fragment of another MMA.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_TENSORCORE_H
#define KILN_LIB_TARGET_GPU_TENSORCORE_H

#include "GpuBuilder.h"

#include <array>

namespace kiln::gpu {

using FourValues = std::array<mlir::Value, 4>;

/// Returns sums + a b. The words of a and b have elements of type `element`,
/// bf16 or f16.
FourValues multiplyAdd(GpuBuilder &k, mlir::Type element,
                       llvm::ArrayRef<mlir::Value> a,
                       llvm::ArrayRef<mlir::Value> b, const FourValues &sums);

/// Loads four matrices of 8 x 8 elements from shared memory. In lane l, `row`
/// is the address of row l % 8 of matrix l / 8. The address must be a multiple
/// of 16, the size of a row in bytes. Word m of the result is {M[g][2t],
/// M[g][2t + 1]}, where g = l / 4, t = l % 4, and M is matrix m or, if
/// `isTransposed`, its transpose.
FourValues loadMatrices(GpuBuilder &k, mlir::Value row, bool isTransposed);

/// Starts an asynchronous copy of `bytes` (4, 8 or 16) bytes from global to
/// shared memory. Both addresses are multiples of `bytes`. Only the first
/// `present` bytes (i32; null: all) are read, and the remaining bytes of the
/// destination are set to zero. The thread can read the copied data after
/// waitCopies().
void copyAsync(GpuBuilder &k, mlir::Value to, mlir::Value from, int64_t bytes,
               mlir::Value present);
/// Waits for all copies that the thread started.
void waitCopies(GpuBuilder &k);

/// Returns 2^x with an error of at most 2 ULP; results below 2^-126 are 0.
mlir::Value exp2(GpuBuilder &k, mlir::Value x);
/// Returns the maximum; if one operand is NaN, returns the other.
mlir::Value larger(GpuBuilder &k, mlir::Value x, mlir::Value y);

/// Rounds two f32 values to `element`, bf16 or f16, and packs them into a word.
mlir::Value packWord(GpuBuilder &k, mlir::Type element, mlir::Value low,
                     mlir::Value high);
/// Returns the elements of a word, of type `element`, as f32.
std::array<mlir::Value, 2> unpackWord(GpuBuilder &k, mlir::Type element,
                                      mlir::Value word);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_TENSORCORE_H
