//===- ElementType.h - Table of element types -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Describes the properties of an element type that do not depend on the
// operation: its sizes, its names and the type of its arithmetic. The
// properties are in a table with one row per type, which the compiler, the
// runtime and the interpreter share. A new storage type needs a row in the
// table, and code that widens and narrows its elements.
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
  /// A type that files may contain but that cannot be converted to other types.
  Opaque,
};

/// The binary format of a floating-point type: a sign bit, an exponent with
/// bias 2^(exponentBits - 1) - 1, and a mantissa. Subnormal numbers are
/// supported.
struct FloatFormat {
  unsigned exponentBits = 0;
  unsigned mantissaBits = 0;
  /// If true, codes with all exponent bits set are infinities and NaNs, as in
  /// IEEE 754. If false, only the codes with all bits of exponent and mantissa
  /// set are NaNs, and all other codes are finite numbers.
  bool hasInfinity = true;
  /// If true, conversions replace infinities and numbers beyond the range by
  /// the largest finite number of the same sign. If false, conversions replace
  /// such values by an infinity, or by NaN if the format has no infinity.
  bool saturates = false;

  // Codes of special values, with the sign bit clear.
  constexpr uint64_t infinity() const {
    return ((uint64_t{1} << exponentBits) - 1) << mantissaBits;
  }
  constexpr uint64_t quietNaN() const {
    return hasInfinity ? infinity() | uint64_t{1} << (mantissaBits - 1)
                       : (uint64_t{1} << (exponentBits + mantissaBits)) - 1;
  }
  constexpr uint64_t largest() const {
    return (hasInfinity ? infinity() : quietNaN()) - 1;
  }
  constexpr uint64_t overflow() const {
    return saturates ? largest() : hasInfinity ? infinity() : quietNaN();
  }
  constexpr int bias() const { return (1 << (exponentBits - 1)) - 1; }
};

/// The properties of one element type.
struct ElementTypeInfo {
  ElementType type;
  ElementKind kind;
  /// Bits of an element in memory. If fewer than 8, several elements share a
  /// byte.
  unsigned bits;
  /// Name in the header of a safetensors file, such as "BF16".
  std::string_view fileName;
  /// Name in IR and program descriptions, such as "bf16"; empty for a type that
  /// occurs in files only.
  std::string_view name;
  /// Type of arithmetic on loaded elements: f32 for narrower floats, otherwise
  /// the type itself.
  ElementType compute;
  /// Difference between 1 and the next larger value; 0 unless the kind is
  /// Float.
  double spacingAtOne;
  /// Binary format; valid only if the kind is Float.
  FloatFormat format;
  /// True for a floating-point type that only states, casts and optimizer
  /// updates may use.
  bool storageOnly;
  /// Name of the precision on command lines and in machine files, such as
  /// "fp32"; empty if there is no such precision.
  std::string_view precision;
};

const ElementTypeInfo &infoOf(ElementType type);

/// Returns the type with this name in safetensors headers. The comparison is
/// case-sensitive.
std::optional<ElementType> elementTypeOfFile(std::string_view fileName);

/// Returns the type with this name in IR and program descriptions.
std::optional<ElementType> elementTypeNamed(std::string_view name);

/// Returns the type of activations in mixed precision with this name, such as
/// BF16 for "bf16" and F16 for "fp16"; std::nullopt if there is none.
std::optional<ElementType> lowPrecisionNamed(std::string_view name);

inline unsigned bitsOf(ElementType type) { return infoOf(type).bits; }

/// Returns the type of arithmetic on elements of `type`.
inline ElementType computeType(ElementType type) {
  return infoOf(type).compute;
}

/// Returns true for a floating-point type that is narrower than its compute
/// type, so that loads widen its elements and stores round them.
inline bool isNarrowFloat(ElementType type) {
  return computeType(type) != type;
}

inline bool isFloat(ElementType type) {
  return infoOf(type).kind == ElementKind::Float;
}

/// Returns the magnitude below which compiled code may flush numbers of a float
/// type to zero. Returns 0 for 8-bit floats: integer arithmetic converts them,
/// and their subnormal numbers are normal numbers in f32, so no number is
/// flushed.
double flushedBelow(ElementType type);

/// Returns the bytes of `count` contiguous elements, rounded up to whole bytes.
/// `count * bitsOf(type)` must fit 64 bits.
inline int64_t bytesOf(ElementType type, int64_t count = 1) {
  return (count * int64_t(bitsOf(type)) + 7) / 8;
}

} // namespace kiln::support

#endif // KILN_SUPPORT_ELEMENTTYPE_H
