//===- ElementType.cpp - Table of element types ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/ElementType.h"
#include <cassert>
#include <cmath>

using namespace kiln::support;
using T = ElementType;
using K = ElementKind;

static constexpr ElementTypeInfo
real(T type, const char *fileName, const char *name, T compute,
     FloatFormat format, const char *precision = "", bool storageOnly = false) {
  return {type,
          K::Float,
          1 + format.exponentBits + format.mantissaBits,
          fileName,
          name,
          compute,
          1.0 / double(uint64_t{1} << format.mantissaBits),
          format,
          storageOnly,
          precision};
}

static constexpr ElementTypeInfo other(T type, K kind, unsigned bits,
                                       const char *fileName,
                                       const char *name = "") {
  return {type, kind, bits, fileName, name, type, 0, {}, false, ""};
}

/// Rows in the order of the enumerators.
static constexpr ElementTypeInfo kTable[] = {
    // type, name in files, name in IR, compute, {exponent bits, mantissa bits},
    // precision
    real(T::F64, "F64", "f64", T::F64, {11, 52}, "fp64"),
    real(T::F32, "F32", "f32", T::F32, {8, 23}, "fp32"),
    real(T::BF16, "BF16", "bf16", T::F32, {8, 7}, "bf16"),
    real(T::F16, "F16", "f16", T::F32, {5, 10}, "fp16"),
    // type, kind, bits, name in files, name in IR
    other(T::I64, K::Signed, 64, "I64", "i64"),
    other(T::I32, K::Signed, 32, "I32", "i32"),
    other(T::I16, K::Signed, 16, "I16", "i16"),
    other(T::I8, K::Signed, 8, "I8", "i8"),
    other(T::U64, K::Unsigned, 64, "U64"),
    other(T::U32, K::Unsigned, 32, "U32"),
    other(T::U16, K::Unsigned, 16, "U16"),
    other(T::U8, K::Unsigned, 8, "U8", "u8"),
    other(T::Bool, K::Bool, 8, "BOOL", "i1"),
    other(T::C64, K::Opaque, 64, "C64"),
    real(T::F8_E4M3, "F8_E4M3", "f8E4M3FN", T::F32,
         {4, 3, /*hasInfinity=*/false, /*saturates=*/true}, "",
         /*storageOnly=*/true),
    real(T::F8_E5M2, "F8_E5M2", "f8E5M2", T::F32,
         {5, 2, /*hasInfinity=*/true, /*saturates=*/true}, "",
         /*storageOnly=*/true),
    other(T::F8_E8M0, K::Opaque, 8, "F8_E8M0"),
    other(T::F8_E4M3FNUZ, K::Opaque, 8, "F8_E4M3FNUZ"),
    other(T::F8_E5M2FNUZ, K::Opaque, 8, "F8_E5M2FNUZ"),
    other(T::F6_E2M3, K::Opaque, 6, "F6_E2M3"),
    other(T::F6_E3M2, K::Opaque, 6, "F6_E3M2"),
    other(T::F4, K::Opaque, 4, "F4"),
};

const ElementTypeInfo &kiln::support::infoOf(ElementType type) {
  const ElementTypeInfo &info = kTable[static_cast<unsigned>(type)];
  assert(info.type == type && "the table is in the order of the enum");
  return info;
}

double kiln::support::flushedBelow(ElementType type) {
  const ElementTypeInfo &info = infoOf(type);
  if (info.kind != ElementKind::Float || info.bits <= 8)
    return 0;
  return std::ldexp(1.0, 1 - info.format.bias());
}

std::optional<ElementType>
kiln::support::elementTypeOfFile(std::string_view fileName) {
  for (const ElementTypeInfo &info : kTable)
    if (info.fileName == fileName)
      return info.type;
  return std::nullopt;
}

std::optional<ElementType>
kiln::support::elementTypeNamed(std::string_view name) {
  for (const ElementTypeInfo &info : kTable)
    if (!name.empty() && info.name == name)
      return info.type;
  return std::nullopt;
}

std::optional<ElementType>
kiln::support::lowPrecisionNamed(std::string_view name) {
  for (const ElementTypeInfo &info : kTable)
    if (!name.empty() && info.precision == name && isNarrowFloat(info.type))
      return info.type;
  return std::nullopt;
}
