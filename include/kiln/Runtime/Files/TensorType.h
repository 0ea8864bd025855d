//===- TensorType.h - Element types of stored tensors -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The element types of the safetensors format, and conversion among those that
// are numbers on their own. A conversion rounds once, to nearest even; values
// beyond the range of the destination become infinite.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_FILES_TENSORTYPE_H
#define KILN_RUNTIME_FILES_TENSORTYPE_H

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln {

enum class TensorType : uint8_t {
  F64,
  F32,
  F16,
  BF16,
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

/// The name in a safetensors header, e.g. "BF16".
std::string_view tensorTypeName(TensorType type);

/// From a safetensors header; case matters.
std::optional<TensorType> parseTensorType(std::string_view name);

/// From a program description: f64 f32 f16 bf16 i64 i32 i16 i8 u8 i1.
std::optional<TensorType> parseProgramType(std::string_view name);

/// Bits of one element; several elements share a byte when it is below 8.
unsigned tensorTypeBits(TensorType type);

/// Distance from 1 to the next larger value of F64, F32, F16 or BF16; 0 for
/// other types.
double spacingAtOne(TensorType type);

/// Whether convertElements can do it: equal types of whole bytes, or any of
/// F64..Bool to F64, F32, F16 or BF16.
bool isConvertible(TensorType from, TensorType to);

/// Converts `count` elements. The ranges must not overlap and need no
/// alignment; isConvertible(from, to) must hold.
void convertElements(TensorType from, const void *source, TensorType to,
                     void *destination, std::size_t count);

float halfToFloat(uint16_t bits);
float bfloatToFloat(uint16_t bits);
uint16_t doubleToHalf(double value);
uint16_t doubleToBfloat(double value);

} // namespace kiln

#endif // KILN_RUNTIME_FILES_TENSORTYPE_H
