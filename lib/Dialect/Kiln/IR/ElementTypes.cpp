//===- ElementTypes.cpp - Element types of MLIR types -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/ElementTypes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/ErrorHandling.h"

using namespace mlir;
using namespace kiln;

/// Maps the floating-point element types to MLIR types.
#define KILN_FLOATS(FLOAT)                                                     \
  FLOAT(F64, Float64Type)                                                      \
  FLOAT(F32, Float32Type)                                                      \
  FLOAT(BF16, BFloat16Type)                                                    \
  FLOAT(F16, Float16Type)                                                      \
  FLOAT(F8_E4M3, Float8E4M3FNType)                                             \
  FLOAT(F8_E5M2, Float8E5M2Type)

std::optional<ElementType> kiln::findElementType(Type type) {
  type = getElementTypeOrSelf(type);
  if (auto integer = dyn_cast<IntegerType>(type)) {
    if (!integer.isSignless())
      return std::nullopt;
    switch (integer.getWidth()) {
    case 1:
      return ElementType::Bool;
    case 8:
      return ElementType::I8;
    case 16:
      return ElementType::I16;
    case 32:
      return ElementType::I32;
    case 64:
      return ElementType::I64;
    }
    return std::nullopt;
  }
#define KILN_FIND(ROW, TYPE)                                                   \
  if (isa<TYPE>(type))                                                         \
    return ElementType::ROW;
  KILN_FLOATS(KILN_FIND)
#undef KILN_FIND
  return std::nullopt;
}

ElementType kiln::elementTypeOf(Type type) {
  std::optional<ElementType> found = findElementType(type);
  if (!found)
    llvm::report_fatal_error("no element type of kiln has this IR type");
  return *found;
}

Type kiln::irTypeOf(ElementType type, MLIRContext *context) {
  Builder builder(context);
  const ElementTypeInfo &info = infoOf(type);
  switch (info.kind) {
  case ElementKind::Float:
    switch (type) {
#define KILN_GET(ROW, TYPE)                                                    \
  case ElementType::ROW:                                                       \
    return TYPE::get(context);
      KILN_FLOATS(KILN_GET)
#undef KILN_GET
    default:
      break;
    }
    break;
  case ElementKind::Signed:
    return builder.getIntegerType(info.bits);
  case ElementKind::Bool:
    return builder.getI1Type();
  case ElementKind::Unsigned:
  case ElementKind::Opaque:
    break;
  }
  llvm::report_fatal_error("this element type has no IR type");
}

bool kiln::isTensorElement(Type type) {
  if (isa<ShapedType>(type))
    return false;
  std::optional<ElementType> found = findElementType(type);
  return found && *found != ElementType::Bool && *found != ElementType::I16;
}

bool kiln::isStoredReal(Type type) {
  std::optional<ElementType> found = findElementType(type);
  return !isa<ShapedType>(type) && found && isFloat(*found);
}

bool kiln::isComputedReal(Type type) {
  return isStoredReal(type) && !infoOf(*findElementType(type)).storageOnly;
}

int64_t kiln::elementBytes(Type type, int64_t count) {
  return bytesOf(elementTypeOf(type), count);
}

bool kiln::isNarrowFloat(Type type) {
  std::optional<ElementType> found = findElementType(type);
  return found && isNarrowFloat(*found);
}

Type kiln::fullPrecision(Type type) {
  return isNarrowFloat(type)
             ? irTypeOf(computeType(elementTypeOf(type)), type.getContext())
             : type;
}
