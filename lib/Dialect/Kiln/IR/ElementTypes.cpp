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
  if (type.isF32())
    return ElementType::F32;
  if (type.isBF16())
    return ElementType::BF16;
  if (type.isF64())
    return ElementType::F64;
  if (type.isF16())
    return ElementType::F16;
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
    case ElementType::F64:
      return builder.getF64Type();
    case ElementType::F32:
      return builder.getF32Type();
    case ElementType::F16:
      return builder.getF16Type();
    case ElementType::BF16:
      return builder.getBF16Type();
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
