//===- PackedFormat.h - Formats of quantized weight files -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The formats in which kilnc --quantize stores matrices. Blocks of consecutive
// elements of the row-major matrix are encoded independently of each other.
// docs/use/ptq.md describes the formats for readers of the files.
//
// | format   | block | value of an element                 | bits/element   |
// | -------- | ----- | ----------------------------------- | -------------- |
// | int8     | 64    | scale * code, code from -127 to 127 | 8 + 32/64      |
// | int4     | 64    | scale * code, code from -7 to 7     | 4 + 32/64      |
// | kashin:B | 128   | see KashinCode.h, B from 2 to 4     | B + 2 * 32/128 |
//
// UniformCode.h describes the scales and codes of int8 and int4.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_PACKEDFORMAT_H
#define KILN_SUPPORT_PACKEDFORMAT_H

#include "kiln/Support/ElementType.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::support {

class PackedFormat {
public:
  /// Returns the format with this name, such as "int8" or "kashin:3".
  static std::optional<PackedFormat> named(std::string_view name);
  /// Returns all names, for messages.
  static std::string allNames();

  std::string name() const;
  int bits() const { return bits_; }
  /// Returns the number of elements of a block. The last block of a matrix may
  /// have fewer elements.
  int64_t blockElements() const;
  /// Returns the number of f32 scales of a block.
  int64_t scalesPerBlock() const { return isKashin_ ? 2 : 1; }

  int64_t blocks(int64_t elements) const;
  /// Returns the size in bytes of the codes of a matrix. The codes of block i
  /// start at byte i * blockElements() * bits() / 8.
  int64_t codeBytes(int64_t elements) const;
  /// Returns the size in bytes of the codes and scales of a matrix.
  int64_t bytes(int64_t elements) const;

  /// Return the type and the shape of the tensor with the codes of a matrix:
  /// - int8: I8, the shape of the matrix
  /// - int4: U8 [ceil(elements / 2)]; a byte has two elements, the first one in
  ///   the low half, stored as code + 8
  /// - kashin:B: U8 [blocks, 16 B]
  ElementType codeType() const;
  std::vector<int64_t> codeShape(const std::vector<int64_t> &shape) const;
  /// Returns the shape of the F32 tensor with the scales: [blocks], or for
  /// kashin:B [blocks, 2], because KashinCode.h represents a block by two
  /// vectors, u and v, with one scale each.
  std::vector<int64_t> scaleShape(const std::vector<int64_t> &shape) const;

  /// Encodes `count` finite elements that start at the start of a block and end
  /// at the end of a block or of the matrix. Writes codeBytes(count) bytes and
  /// scalesPerBlock() * blocks(count) scales. The calling thread must round to
  /// nearest.
  void encode(const float *values, int64_t count, uint8_t *codes,
              float *scales) const;
  /// Decodes what encode() wrote. Any bytes can be decoded.
  void decode(const uint8_t *codes, const float *scales, int64_t count,
              float *values) const;

private:
  PackedFormat(bool isKashin, int bits) : isKashin_(isKashin), bits_(bits) {}

  bool isKashin_;
  int bits_;
};

} // namespace kiln::support

#endif // KILN_SUPPORT_PACKEDFORMAT_H
