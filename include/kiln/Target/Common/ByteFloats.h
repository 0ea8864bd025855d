//===- ByteFloats.h - 8-bit floating-point types in kernels -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Emitters generate kernels for 8-bit floating-point types in the same way as
// for other narrow types: arith.extf widens an element, and arith.truncf rounds
// one. No target computes these conversions as kiln defines them, so
// expandByteFloats replaces them by integer operations in the complete kernel.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_BYTEFLOATS_H
#define KILN_TARGET_COMMON_BYTEFLOATS_H

#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Operation.h"

namespace kiln {

/// Returns true for an 8-bit floating-point type and for a vector of such
/// elements.
bool isByteFloat(mlir::Type type);

/// Returns the integer type of the same width as a floating-point type. Returns
/// a vector of integers for a vector.
mlir::Type integerOfBits(mlir::Type type);

/// Replaces the floating-point types in `op` for which `isReplaced` returns
/// true, and constants of these types, by integers with the same bits.
void replaceFloatsByIntegers(
    mlir::Operation *op, llvm::function_ref<bool(mlir::FloatType)> isReplaced);

/// Replaces conversions between 8-bit floating-point types and f32 in `op` by
/// integer operations, as the FloatFormat of the 8-bit type defines them.
/// Replaces the 8-bit types by i8.
void expandByteFloats(mlir::Operation *op);

} // namespace kiln

#endif // KILN_TARGET_COMMON_BYTEFLOATS_H
