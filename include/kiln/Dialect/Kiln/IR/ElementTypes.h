//===- ElementTypes.h - Element types of MLIR types -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Maps MLIR types to the element types of kiln/Support/ElementType.h.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_ELEMENTTYPES_H
#define KILN_DIALECT_KILN_IR_ELEMENTTYPES_H

#include "kiln/Support/ElementType.h"

#include "mlir/IR/Types.h"

#include <optional>

namespace kiln {

/// Returns true for the element types that tensors of the dialect may have.
bool isTensorElement(mlir::Type type);
/// Returns true for the floating-point types that states, casts and updates can
/// store.
bool isStoredReal(mlir::Type type);
/// Returns true for the floating-point types that all ops accept: the types for
/// which isStoredReal() returns true, except those marked as storage-only in
/// the table of element types.
bool isComputedReal(mlir::Type type);

/// Returns the element type of a tensor, vector or scalar type (i1 is Bool), or
/// std::nullopt for types that no tensor of kiln has.
std::optional<ElementType> findElementType(mlir::Type type);
/// Returns the element type of a type that is known to have one.
ElementType elementTypeOf(mlir::Type type);
/// Returns the MLIR type of a floating-point type, a signed integer type or
/// Bool. Element types without an MLIR type are a fatal error.
mlir::Type irTypeOf(ElementType type, mlir::MLIRContext *context);
/// Returns the bytes of `count` contiguous elements of `type`. If `type` is a
/// tensor or vector type, the elements have its element type.
int64_t elementBytes(mlir::Type type, int64_t count = 1);
/// Returns true for types whose elements are widened when loaded and rounded
/// when stored.
bool isNarrowFloat(mlir::Type type);

/// Returns f32 if `type` is a narrow float, and `type` itself otherwise. Ops on
/// elements of `type` compute in the returned type. Values that are sensitive
/// to rounding are also stored in the returned type.
mlir::Type fullPrecision(mlir::Type type);

} // namespace kiln

#endif // KILN_DIALECT_KILN_IR_ELEMENTTYPES_H
