//===- LibraryAttention.h - Attention by a GPU's library --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a launch of attention says of itself where a library may compute it in
// place of its kernel: compiler and runtime agree here on which launches those
// are, and on the memory that they get.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_ENGINE_LIBRARYATTENTION_H
#define KILN_RUNTIME_ENGINE_LIBRARYATTENTION_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kiln {

/// Arguments of the launch, in this order: q, k, v, o and lse, and of gradients
/// dout, dq, dk and dv. lse is f32, the rest bf16. Row t of sequence s is row
/// s * length + t of a matrix, and has the heads one after the other; lse has a
/// row of `length` elements for each sequence and head:
///   lse = log(sum(exp(scale * q k)))
/// Query head h looks at key head h / (heads / kvHeads).
struct LibraryAttention {
  bool isGradient = false;
  bool causal = false;
  int64_t sequences = 1, length = 1, heads = 1, kvHeads = 1, headDim = 8;
  /// Elements from one row to the next of q, k, v, o, dout, dq, dk, dv.
  std::array<int64_t, 8> strides = {};

  std::size_t arguments() const { return isGradient ? 9 : 5; }
  /// How many of `strides` count.
  std::size_t matrices() const { return isGradient ? 8 : 4; }
  /// Columns of a matrix, in the order of `strides`.
  int64_t columns(std::size_t matrix) const {
    bool ofKeys = matrix == 1 || matrix == 2 || matrix == 6 || matrix == 7;
    return (ofKeys ? kvHeads : heads) * headDim;
  }
};

/// The second immediate of the launch: the bits of an f64.
inline double scaleOfBits(int64_t bits) {
  double scale = 0;
  std::memcpy(&scale, &bits, sizeof(scale));
  return scale;
}

/// What the library can do: rows of 16 bytes, up to 128 elements per head.
inline bool suitsLibrary(const LibraryAttention &attention) {
  // So that no number of scores overflows.
  constexpr int64_t mostRows = int64_t(1) << 20, mostHeads = int64_t(1) << 16;
  if (attention.headDim % 8 || attention.headDim > 128 ||
      attention.heads % attention.kvHeads || attention.heads > mostHeads ||
      attention.length > mostRows)
    return false;
  for (std::size_t i = 0; i < attention.matrices(); ++i)
    if (attention.strides[i] % 8)
      return false;
  return true;
}

/// Of gradients: in what dq is added up, in f32.
inline int64_t queryGradBytes(const LibraryAttention &attention) {
  return 4 * attention.sequences * attention.heads * attention.length *
         attention.headDim;
}

/// Of gradients: the sums of the rows of dout * o, in f32. A multiple of 256.
inline int64_t rowSumBytes(const LibraryAttention &attention) {
  int64_t bytes = 4 * attention.sequences * attention.heads * attention.length;
  return (bytes + 255) / 256 * 256;
}

/// The memory that a launch has for the library, beside its arguments: 1 MiB,
/// and of gradients what the two functions above say, and what dk and dv take
/// for every query head where several share them. A multiple of 256.
inline int64_t attentionWorkspaceBytes(const LibraryAttention &attention) {
  int64_t bytes = int64_t(1) << 20;
  if (!attention.isGradient)
    return bytes;
  int64_t grads = (queryGradBytes(attention) + 255) / 256 * 256;
  bytes += rowSumBytes(attention) + grads;
  return attention.heads == attention.kvHeads ? bytes : bytes + 2 * grads;
}

} // namespace kiln

#endif // KILN_RUNTIME_ENGINE_LIBRARYATTENTION_H
