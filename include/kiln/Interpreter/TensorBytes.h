//===- TensorBytes.h - Conversion of host tensors to bytes ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts between the interpreter's tensors and the contiguous row-major bytes
// that files and the training driver use.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_TENSORBYTES_H
#define KILN_INTERPRETER_TENSORBYTES_H

#include "kiln/Dialect/Kiln/IR/HostTensor.h"
#include "kiln/Support/ElementType.h"

namespace kiln {

/// Returns the element type in which a tensor type is stored.
ElementType storedType(mlir::RankedTensorType type);

/// Reads a tensor of `type` from elements of type `stored`, which must be of
/// the same kind (floating-point or integer) as the tensor's type.
HostTensor tensorFromBytes(mlir::RankedTensorType type, ElementType stored,
                           const char *bytes);

/// Writes the elements with type `stored`; the inverse of tensorFromBytes().
void tensorToBytes(const HostTensor &tensor, ElementType stored, char *bytes);

} // namespace kiln

#endif // KILN_INTERPRETER_TENSORBYTES_H
