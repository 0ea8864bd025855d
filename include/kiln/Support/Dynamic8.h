//===- Dynamic8.h - Dynamic 8-bit codes of blocks of numbers ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Block-wise dynamic quantization (Dettmers et al., "8-bit Optimizers via
// Block-wise Quantization", arXiv 2110.02861), as in the 8-bit optimizers of
// bitsandbytes. A tensor is a row-major list of n elements, without regard to
// its rows. A block is 256 consecutive elements; n is a multiple of 256.
//
//   scale(b) = the largest magnitude in block b
//   code(i)  = the index of the value of the map nearest to
//              x(i) * (1 / max(scale(i / 256), 2^-126))
//   x(i)     ~ value(code(i)) * scale(i / 256)
//
// A map has 256 values in ascending order. The signed map is for numbers of
// both signs, the unsigned map for numbers that are not negative. If two values
// are equally near, the smaller value is chosen: the code of a number is the
// number of borders below it, where border i is the middle of values i and i +
// 1, rounded to f32.
//
// Codes and scales have the bits of bitsandbytes 0.50.2,
//
//   quantize_blockwise(x, code=create_dynamic_map(signed), blocksize=256)
//
// in its implementation in PyTorch (bitsandbytes/backends/default), except that
// the library divides by at least 1e-38, which is a denormal, instead of
// 2^-126. Its implementation for CPUs in C++ first rounds a number to one of
// 65536 equidistant values in [-1, 1]. This step loses second moments below
// 1.5e-5 of the scale, so the encoder here omits it.
//
// If an element of a block is infinite or not a number, the scale is infinite,
// and every element of the block decodes to an infinity or a NaN.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_DYNAMIC8_H
#define KILN_SUPPORT_DYNAMIC8_H

#include <array>
#include <cstdint>
#include <vector>

namespace kiln::support {

enum class DynamicMap : uint8_t { Signed, Unsigned };

/// Number of elements that share a scale.
inline constexpr int64_t dynamicBlock = 256;
/// The lower bound of the divisor of a block, 2^-126.
inline constexpr float leastDynamicScale = 0x1p-126f;

/// The 256 values of a map in ascending order: the result of bitsandbytes'
/// create_dynamic_map() on a CPU with fused multiply-add. The signed values
/// reach from -0.993 to 1, and entry 127 is 0. The unsigned values reach from 0
/// to 1.
const std::array<float, 256> &dynamicValues(DynamicMap map);

/// Returns the code of 0.
constexpr uint8_t dynamicZero(DynamicMap map) {
  return map == DynamicMap::Signed ? 127 : 0;
}

/// Returns the code of `x`, which is the number of borders (middles of adjacent
/// values of the map) below `x`. Uses a binary search. NaN has an unspecified
/// code.
uint8_t encodeDynamic(DynamicMap map, float x);

/// A table from which kernels compute codes without a search. A bucket is
/// 2^shift consecutive floats and contains at most one border (middle of two
/// adjacent values of the map). `entries` has one entry per bucket. The low 8
/// bits of an entry are the number of borders below the bucket. The other bits
/// are the position, in the bucket, of the float after the border, or 2^shift
/// if the bucket contains no border. For a positive float with the bit pattern
/// `bits`, let e be the entry with index (bits >> shift) - first, clamped to
/// the table. The number of borders below the float is
///
///   (e & 255) + ((bits & (2^shift - 1)) >= (e >> 8) ? 1 : 0)
///
/// For the signed map, the table has the positive borders only. Let c(bits) be
/// the number of positive borders below the float with this bit pattern. If the
/// sign bit of x is clear, the code of x is 127 + c(bits of x). Otherwise, it
/// is 127 - min(127, c((bits of |x|) + 1)). Adding 1 has the effect that a
/// border that equals |x| counts: x is then equally near to two values, and
/// gets the code of the smaller value. The minimum is necessary because the
/// negative borders are the negatives of the first 127 of the 128 positive
/// borders.
struct DynamicSearch {
  int shift;
  int32_t first;
  std::vector<int32_t> entries;
};
const DynamicSearch &dynamicSearch(DynamicMap map);

/// Encodes a block of `count` elements. Returns the scale.
float encodeDynamicBlock(DynamicMap map, const float *values, int64_t count,
                         uint8_t *codes);

} // namespace kiln::support

#endif // KILN_SUPPORT_DYNAMIC8_H
