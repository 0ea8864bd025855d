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

/// Returns the type of the gradient of a value of `type`: `type` itself if ops
/// compute with its elements, and otherwise the type to which a cast converts
/// them.
mlir::RankedTensorType gradientType(mlir::RankedTensorType type);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_GRADIENTTYPE_H
