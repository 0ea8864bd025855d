//===- ByteFloats.h - Floats of 8 bits in kernels ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emitters write kernels with floats of 8 bits as with other narrow floats:
// arith.extf widens an element, arith.truncf rounds one. No target computes
// these conversions as kiln defines them, so they become operations on integers
// when a kernel is complete.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_BYTEFLOATS_H
#define KILN_TARGET_COMMON_BYTEFLOATS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace kiln {

/// True for a float of 8 bits, and for a vector of them.
bool isByteFloat(mlir::Type type);

/// The integer with the bits of a float; for a vector, a vector of integers.
mlir::Type integerOfBits(mlir::Type type);

/// Replaces the float types in `op` that `isReplaced` holds for, and constants
/// of them, by integers of the same bits.
void replaceFloatsByIntegers(
    mlir::Operation *op, llvm::function_ref<bool(mlir::FloatType)> isReplaced);

/// Replaces conversions between floats of 8 bits and f32 in `op` by operations
/// on integers, as the FloatFormat of the type defines them, and the type by
/// i8.
void expandByteFloats(mlir::Operation *op);

} // namespace kiln

#endif // KILN_TARGET_COMMON_BYTEFLOATS_H
