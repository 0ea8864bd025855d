//===- KashinCode.h - Codes in an overdetermined basis ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Represents a block x of 128 weights as x = u + H v / sqrt(128), where H is
// the Hadamard matrix of order 128. u are coefficients in the standard basis,
// and v are coefficients in another orthonormal basis, so there are twice as
// many coefficients as weights. Among the many pairs (u, v) there are some in
// which no coefficient is much larger than the root mean square of x (B.
// Kashin, 1977; Y. Lyubarskii and R. Vershynin, "Uncertainty principles and
// vector quantization", IEEE Trans. Inf. Theory, 2010). An outlier of x becomes
// a pattern of small values in v, so a coarse uniform code suffices for both u
// and v. D. Merkulov et al. quantize weights of language models in this way
// ("Quantization of Large Language Models with an Overdetermined Basis", arXiv
// 2404.09737).
//
// The encoder
//
// 1. finds (u, v) by projecting alternately onto the affine set of all pairs
//    that represent x, and onto the cube of pairs whose entries are at most
//    `peak` times the root mean square of x;
// 2. quantizes u, then repeats these steps: choose the codes of v nearest to
//    the part of x that u does not represent, choose the codes of u nearest to
//    the part that v does not represent, and set both scales to the
//    least-squares solution for these codes. No step increases the squared
//    error;
// 3. repeats 1 and 2 for a few values of `peak` and of the ratio of the initial
//    scales, and keeps the result with the smallest squared error.
//
// u and v are called factors. A factor whose codes have b bits has the 2^b
// levels (2 c - 2^b + 1) * scale, for the codes c = 0 ... 2^b - 1. No level is
// 0.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_KASHINCODE_H
#define KILN_SUPPORT_KASHINCODE_H

#include <cstdint>

namespace kiln::support {

/// A block of 128 weights with `bits` bits per weight. The codes of a block are
/// the codes of u, then the codes of v. If the codes of a factor have b bits,
/// code i is in bits [i b, (i + 1) b) of the bytes of this factor, where the
/// lowest bit of a byte comes first.
class KashinCode {
public:
  static constexpr int64_t blockElements = 128;
  static constexpr int leastBits = 2, mostBits = 4;

  /// Requires leastBits <= bits <= mostBits.
  explicit KashinCode(int bits) : bits_(bits) {}

  int bits() const { return bits_; }
  /// Return the number of bits of a code of u and of a code of v, respectively.
  /// With an odd number of bits, v gets the wider codes, because it represents
  /// most of an outlier.
  int bitsOfU() const { return bits_ / 2; }
  int bitsOfV() const { return (bits_ + 1) / 2; }
  /// Returns the size in bytes of the codes of a block.
  int64_t blockBytes() const { return blockElements * bits_ / 8; }

  /// Encodes a block of `count` <= blockElements finite values, to which zeros
  /// are appended. Writes blockBytes() bytes of codes, and the scales of u and
  /// v. The scale of v includes the factor 1/sqrt(128). Results do not depend
  /// on other blocks.
  void encode(const float *values, int64_t count, uint8_t *codes,
              float *scales) const;

  /// Decodes a block: values[i] = scales[0] * u[i] + scales[1] * (H v)[i],
  /// where u[i] and v[i] are the levels of the codes for a scale of 1, and H
  /// has the entries 1 and -1. Each value is computed in f64 and rounded to
  /// f32.
  void decode(const uint8_t *codes, const float *scales, float *values) const;

private:
  int bits_;
};

} // namespace kiln::support

#endif // KILN_SUPPORT_KASHINCODE_H
