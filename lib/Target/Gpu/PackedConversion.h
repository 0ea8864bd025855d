//===- PackedConversion.h - Packed conversions from f32 to bf16 -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits each f32 to bf16 conversion as one PTX instruction. If LLVM lowered
// these conversions, it would narrow the type of the arithmetic that computes
// the converted values. It would also split pairs of elements that are stored
// together.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_PACKEDCONVERSION_H
#define KILN_LIB_TARGET_GPU_PACKEDCONVERSION_H

#include "mlir/IR/BuiltinOps.h"

namespace kiln::gpu {

/// Replaces every arith.truncf from f32 to bf16 in `module` whose operand is a
/// scalar, or a vector whose length is a power of two. Each pair of adjacent
/// vector elements is converted by one packed conversion.
void roundInPairs(mlir::ModuleOp module);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_PACKEDCONVERSION_H
