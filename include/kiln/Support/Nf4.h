//===- Nf4.h - Weights of four bits with quantized scales -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// NF4 with double quantization (QLoRA, arXiv 2305.14314): stores a weight with
// 4.13 bits per element. A weight is a row-major list of n elements, without
// regard to its rows. A block is 64 consecutive elements, and a group is 256
// consecutive blocks; the last block and the last group may be shorter.
//
//   value(i) = nf4Values[code(i)] * scale(i / 64)
//   scale(b) = dynamicValues[scaleCode(b)] * nestedScale(b / 256) + offset
//
// The dynamic values are those of the signed map of Dynamic8.h.
//
// Each element is divided by the largest magnitude in its block, and code(i) is
// the index of the nearest NF4 value. The largest magnitudes of all blocks are
// then quantized to the scales: the offset is their mean, and the nested scale
// of a group is the largest absolute difference between a magnitude in the
// group and the offset.
//
// The encoding is that of bitsandbytes 0.50.2 on an x86-64 CPU,
//
//   quantize_4bit(w, blocksize=64, compress_statistics=True,
//                 quant_type="nf4")
//
// for a weight in f32, or in bf16 or f16 if it is widened to f32 first:
//
// - The codes have the same bits, including the unused half of the last byte.
// - The nested scales and the scale codes have the same bits for the same
//   offset. Like the library, the encoder rounds a difference divided by its
//   nested scale to one of 65536 equidistant values in [-1, 1] before it
//   chooses the nearest dynamic value.
// - The offset is the mean in f64, rounded to f32. The library uses the f32 sum
//   of PyTorch, whose bits depend on the instruction set of the CPU and on the
//   number of threads, and which may overflow. For random weights, the two
//   offsets differed by at most 3 units in the last place. Nested scales then
//   differ from those of the library in their last bits, and about one scale
//   code in 30000 differs, because the quotient of difference and nested scale
//   is rounded to an adjacent one of the 65536 values.
//   Nf4Encoder::finish(float) accepts the offset of the library.
// - Decoded values have the same bits for the same stored bytes. On CPUs with
//   AVX-512, however, the library decodes a matrix wrongly if the length of its
//   rows is a multiple of 16 and not of 64.
//
// Other versions of bitsandbytes, and the same version on a GPU, may choose
// adjacent codes for values near the middle of two NF4 values or of two dynamic
// values. Their stored weights have the same meaning.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_SUPPORT_NF4_H
#define KILN_SUPPORT_NF4_H

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

namespace kiln::support {

/// The layout of the bytes of a weight. The parts follow each other in this
/// order, and every part starts at a multiple of 4 bytes; padding is zero.
///
/// - codes: two elements per byte, the first one in the high half. If the
///   number of elements is odd, the last low half contains 7, the code of zero.
/// - scale codes: a byte per block
/// - nested scales: a float per group
/// - offset: a float
struct Nf4Layout {
  static constexpr int64_t blockElements = 64;
  static constexpr int64_t groupBlocks = 256;

  /// Requires elements >= 0.
  explicit Nf4Layout(int64_t elements);

  int64_t elements;
  int64_t blocks;
  int64_t groups;
  /// Positions of the parts in bytes. The codes are at position 0.
  int64_t scaleCodesAt;
  int64_t nestedScalesAt;
  int64_t offsetAt;
  /// Size of all parts in bytes.
  int64_t bytes;
};

/// The 16 values of NF4 in ascending order, from -1 to 1. Entry 7 is 0.
extern const std::array<float, 16> nf4Values;

/// Encodes a weight whose elements arrive in order, in chunks of any size.
/// append() writes the codes. The largest magnitudes of all blocks, 1/64 of the
/// size of the weight in f32, are kept until finish().
///
/// The calling thread must round to nearest and not flush denormals.
class Nf4Encoder {
public:
  /// Writes to `bytes`, which must hold layout.bytes bytes and outlive the
  /// encoder. `bytes` may be unaligned.
  Nf4Encoder(const Nf4Layout &layout, char *bytes);

  /// Encodes the next `count` elements. The sum of the counts must not exceed
  /// the number of elements of the weight.
  void append(const float *values, int64_t count);

  /// Writes everything that append() has not written. Requires that all
  /// elements were appended. Returns false if an element was infinite or not a
  /// number; all elements of the block of such an element are stored as zeros,
  /// and other blocks are stored as usual.
  [[nodiscard]] bool finish();

  /// Like finish(), but stores `offset`, which must be finite, instead of the
  /// mean of the largest magnitudes of all blocks.
  [[nodiscard]] bool finish(float offset);

  /// Returns the index of the first element appended so far that is infinite or
  /// not a number. An element of an incomplete block is not yet considered.
  std::optional<int64_t> firstNonFinite() const { return firstNonFinite_; }

private:
  float mean() const;
  void encodeBlock(const float *values, int64_t count);
  void encodePending();
  void encodeScales(int64_t group, float offset);

  Nf4Layout layout_;
  char *bytes_;
  /// The largest magnitude of each encoded block.
  std::vector<float> magnitudes_;
  /// The first elements of the next block, if a chunk ended inside a block.
  std::array<float, Nf4Layout::blockElements> pending_;
  int64_t pendingCount_ = 0;
  std::optional<int64_t> firstNonFinite_;
};

/// Decodes the elements [first, first + count) of the weight in `bytes` to
/// `to`. Every operation in the formula of an element (see the start of this
/// file) is rounded to f32. Requires that the range is inside the weight.
/// `bytes` may be unaligned. Any bytes can be decoded.
void decodeNf4(const char *bytes, const Nf4Layout &layout, int64_t first,
               int64_t count, float *to);

} // namespace kiln::support

#endif // KILN_SUPPORT_NF4_H
