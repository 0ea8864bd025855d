//===- ElementTypes.h - Element types of IR and of the table ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The table of element types (kiln/Support/ElementType.h) as the compiler asks
// it, by types of IR.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_ELEMENTTYPES_H
#define KILN_DIALECT_KILN_IR_ELEMENTTYPES_H

#include "kiln/Support/ElementType.h"

#include "mlir/IR/Types.h"

#include <optional>

namespace kiln {

/// True for the element types that tensors of the dialect may have.
bool isTensorElement(mlir::Type type);

/// The row of the element-type table for elements of a tensor, a vector or a
/// scalar (i1 is Bool), or nothing for types that no tensor of kiln has.
std::optional<ElementType> findElementType(mlir::Type type);
/// Returns the row of a type that is known to have one.
ElementType elementTypeOf(mlir::Type type);
/// Returns the type in IR of a float, a signed integer or Bool that has a name
/// in the table.
mlir::Type irTypeOf(ElementType type, mlir::MLIRContext *context);
/// Bytes of `count` elements of `type` (or of the elements of a tensor or
/// vector type) that are stored one after the other.
int64_t elementBytes(mlir::Type type, int64_t count = 1);
/// True for elements that are widened when loaded and rounded when stored.
bool isNarrowFloat(mlir::Type type);

/// The type in which elements of `type` are computed with, and in which what is
/// sensitive to rounding is kept: f32 for narrower floats, other types
/// themselves.
mlir::Type fullPrecision(mlir::Type type);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_ELEMENTTYPES_H
