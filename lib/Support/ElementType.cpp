//===- ElementType.cpp - Table of element types ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Support/ElementType.h"
#include <cassert>

using namespace kiln::support;
using T = ElementType;
using K = ElementKind;

/// Rows in the order of the enumerators.
static constexpr ElementTypeInfo kTable[] = {
    // Columns: type, kind, bits, name in files, name in IR, compute type,
    // spacing at 1, precision.
    {T::F64, K::Float, 64, "F64", "f64", T::F64, 0x1p-52, "fp64"},
    {T::F32, K::Float, 32, "F32", "f32", T::F32, 0x1p-23, "fp32"},
    {T::BF16, K::Float, 16, "BF16", "bf16", T::F32, 0x1p-7, "bf16"},
    {T::F16, K::Float, 16, "F16", "f16", T::F32, 0x1p-10, "fp16"},
    {T::I64, K::Signed, 64, "I64", "i64", T::I64, 0, ""},
    {T::I32, K::Signed, 32, "I32", "i32", T::I32, 0, ""},
    {T::I16, K::Signed, 16, "I16", "i16", T::I16, 0, ""},
    {T::I8, K::Signed, 8, "I8", "i8", T::I8, 0, ""},
    {T::U64, K::Unsigned, 64, "U64", "", T::U64, 0, ""},
    {T::U32, K::Unsigned, 32, "U32", "", T::U32, 0, ""},
    {T::U16, K::Unsigned, 16, "U16", "", T::U16, 0, ""},
    {T::U8, K::Unsigned, 8, "U8", "u8", T::U8, 0, ""},
    {T::Bool, K::Bool, 8, "BOOL", "i1", T::Bool, 0, ""},
    {T::C64, K::Opaque, 64, "C64", "", T::C64, 0, ""},
    {T::F8_E4M3, K::Opaque, 8, "F8_E4M3", "", T::F8_E4M3, 0, ""},
    {T::F8_E5M2, K::Opaque, 8, "F8_E5M2", "", T::F8_E5M2, 0, ""},
    {T::F8_E8M0, K::Opaque, 8, "F8_E8M0", "", T::F8_E8M0, 0, ""},
    {T::F8_E4M3FNUZ, K::Opaque, 8, "F8_E4M3FNUZ", "", T::F8_E4M3FNUZ, 0, ""},
    {T::F8_E5M2FNUZ, K::Opaque, 8, "F8_E5M2FNUZ", "", T::F8_E5M2FNUZ, 0, ""},
    {T::F6_E2M3, K::Opaque, 6, "F6_E2M3", "", T::F6_E2M3, 0, ""},
    {T::F6_E3M2, K::Opaque, 6, "F6_E3M2", "", T::F6_E3M2, 0, ""},
    {T::F4, K::Opaque, 4, "F4", "", T::F4, 0, ""},
};

const ElementTypeInfo &kiln::support::infoOf(ElementType type) {
  const ElementTypeInfo &info = kTable[static_cast<unsigned>(type)];
  assert(info.type == type && "the table is in the order of the enum");
  return info;
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
