//===- UniformCode.h - Codes that share a scale -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A block of elements is stored as signed codes of 8 or 4 bits and an f32
// scale:
//
//   value(i) = scale * code(i)
//
// The scale is the largest magnitude of the block divided by the largest code,
// 127 or 7, and code(i) is element / scale, rounded to nearest. Codes are
// symmetric: -128 and -8 do not occur.
//
// Each code of 8 bits has its own byte. A byte has two codes of 4 bits, each
// stored as code + 8. The code of the element with the even index is in the low
// half, and the code of the next element in the high half.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_UNIFORMCODE_H
#define KILN_SUPPORT_UNIFORMCODE_H

#include <cstdint>

namespace kiln::support {

/// Encodes a block of `count` finite elements to codes of `bits` bits, 8 or 4,
/// and returns its scale. The calling thread must round to nearest.
float encodeUniform(int bits, const float *values, int64_t count,
                    uint8_t *codes);

/// Decodes what encodeUniform() wrote. Any codes can be decoded.
void decodeUniform(int bits, const uint8_t *codes, float scale, int64_t count,
                   float *values);

} // namespace kiln::support

#endif // KILN_SUPPORT_UNIFORMCODE_H
