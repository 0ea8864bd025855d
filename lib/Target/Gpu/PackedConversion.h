//===- PackedConversion.h - Rounding to bf16 in PTX -----------------*- C++
//-*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Conversions from f32 to bf16 as the instructions that they should be. LLVM
// knows how to narrow arithmetic whose result is converted, and then takes
// apart what goes to memory in pairs.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_PACKEDCONVERSION_H
#define KILN_LIB_TARGET_GPU_PACKEDCONVERSION_H

#include "mlir/IR/BuiltinOps.h"

namespace kiln::gpu {

/// Replaces all arith.truncf from f32 to bf16 in `module`: two neighbouring
/// elements of a vector are one instruction.
void roundInPairs(mlir::ModuleOp module);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_PACKEDCONVERSION_H
