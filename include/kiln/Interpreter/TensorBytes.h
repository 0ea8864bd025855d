//===- TensorBytes.h - Host tensors as bytes in memory ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Between the interpreter's tensors and the dense row-major bytes that files
// and the training driver work with. Types are those a kiln tensor can have:
// f32, f64, i32, i64.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_TENSORBYTES_H
#define KILN_INTERPRETER_TENSORBYTES_H

#include "kiln/Dialect/Kiln/IR/HostTensor.h"
#include "kiln/Support/ElementType.h"

namespace kiln {

/// The stored type of elements of a tensor type.
ElementType storedType(mlir::RankedTensorType type);

/// Reads a tensor of `type` whose elements are stored as `stored`, a type of
/// the same kind (floating point or integer) as the tensor's.
HostTensor tensorFromBytes(mlir::RankedTensorType type, ElementType stored,
                           const char *bytes);

/// Writes the elements as `stored`; the inverse of tensorFromBytes.
void tensorToBytes(const HostTensor &tensor, ElementType stored, char *bytes);

} // namespace kiln

#endif // KILN_INTERPRETER_TENSORBYTES_H
