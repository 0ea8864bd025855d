//===- GradientType.h - Types of gradients ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_GRADIENTTYPE_H
#define KILN_DIALECT_KILN_IR_GRADIENTTYPE_H

#include "mlir/IR/BuiltinTypes.h"

namespace kiln {

/// Returns the type of the gradient of a value of `type`: `type` with elements
/// of type f32 if its element type is one that programs store but do not
/// compute with (see isComputedReal()), and `type` itself otherwise.
mlir::RankedTensorType gradientType(mlir::RankedTensorType type);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_GRADIENTTYPE_H
