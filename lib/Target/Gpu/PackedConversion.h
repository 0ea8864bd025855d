//===- PackedConversion.h - Packed conversions from f32 to bf16 -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emits each f32 to bf16 conversion as one PTX instruction. If LLVM lowered
// these conversions, it would narrow the arithmetic whose result is converted
// and split pairs of elements that are stored together.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_PACKEDCONVERSION_H
#define KILN_LIB_TARGET_GPU_PACKEDCONVERSION_H

#include "mlir/IR/BuiltinOps.h"

namespace kiln::gpu {

/// Replaces every arith.truncf from f32 to bf16 in `module`, except on vectors
/// whose length is not a power of two. One packed conversion converts two
/// adjacent vector elements.
void roundInPairs(mlir::ModuleOp module);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_PACKEDCONVERSION_H
