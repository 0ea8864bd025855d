//===- ElementType.h - The table of element types ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Everything that depends on the element type of a tensor and not on what is
// done with it: sizes, names, and the type in which elements are computed with.
// The compiler, the runtime and the interpreter ask this table; a new storage
// type is a row of it and the code that widens and narrows its elements.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_ELEMENTTYPE_H
#define KILN_SUPPORT_ELEMENTTYPE_H

#include "kiln/Support/Vocabulary.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln::support {

/// The element types of the safetensors format.
enum class ElementType : uint8_t {
  F64,
  F32,
  BF16,
  F16,
  I64,
  I32,
  I16,
  I8,
  U64,
  U32,
  U16,
  U8,
  Bool,
  C64,
  F8_E4M3,
  F8_E5M2,
  F8_E8M0,
  F8_E4M3FNUZ,
  F8_E5M2FNUZ,
  F6_E2M3,
  F6_E3M2,
  F4,
};

enum class ElementKind : uint8_t {
  Float,
  Signed,
  Unsigned,
  Bool,
  /// Read from files and kept as bytes, never converted.
  Opaque,
};

/// A row of the table.
struct ElementTypeInfo {
  ElementType type;
  ElementKind kind;
  /// Bits of an element in memory; several elements share a byte when it is
  /// below 8.
  unsigned bits;
  /// The name in the header of a safetensors file, such as "BF16".
  std::string_view fileName;
  /// The name in IR and program descriptions, such as "bf16"; empty for a type
  /// that only files have.
  std::string_view name;
  /// The type that arithmetic on loaded elements has: f32 for narrower floats,
  /// otherwise the type itself.
  ElementType compute;
  /// The distance from 1 to the next larger value; 0 unless the kind is Float.
  double spacingAtOne;
  /// The name of the precision in command lines and machine files, such as
  /// "fp32"; empty if there is no such precision.
  std::string_view precision;
};

const ElementTypeInfo &infoOf(ElementType type);

/// Finds a type by its name in a safetensors header; case matters.
std::optional<ElementType> elementTypeOfFile(std::string_view fileName);

/// Finds a type by its name in IR and program descriptions.
std::optional<ElementType> elementTypeNamed(std::string_view name);

inline unsigned bitsOf(ElementType type) { return infoOf(type).bits; }

/// The type that arithmetic on elements of `type` has.
inline ElementType computeType(ElementType type) {
  return infoOf(type).compute;
}

/// True for a float that is narrower than the type that computes with it, so
/// that a load widens its elements and a store rounds them.
inline bool isNarrowFloat(ElementType type) {
  return computeType(type) != type;
}

inline bool isFloat(ElementType type) {
  return infoOf(type).kind == ElementKind::Float;
}

/// Bytes of `count` elements that are stored one after the other, rounded up to
/// whole bytes. The caller knows that `count * bitsOf(type)` fits 64 bits.
inline int64_t bytesOf(ElementType type, int64_t count = 1) {
  return (count * int64_t(bitsOf(type)) + 7) / 8;
}

} // namespace kiln::support

#endif // KILN_SUPPORT_ELEMENTTYPE_H
