//===- ElementTypes.cpp - Element types of IR and of the table ------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/ElementTypes.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/TypeUtilities.h"
#include "llvm/Support/ErrorHandling.h"
#include "llvm/Support/raw_ostream.h"

using namespace mlir;
using namespace kiln;

std::optional<ElementType> kiln::findElementType(Type type) {
  type = getElementTypeOrSelf(type);
  if (auto integer = dyn_cast<IntegerType>(type)) {
    if (!integer.isSignless())
      return std::nullopt;
    return elementTypeNamed("i" + std::to_string(integer.getWidth()));
  }
  if (auto real = dyn_cast<FloatType>(type)) {
    std::string name;
    llvm::raw_string_ostream(name) << real;
    return elementTypeNamed(name);
  }
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
