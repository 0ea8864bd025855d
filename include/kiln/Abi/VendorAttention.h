//===- VendorAttention.h - Attention by a GPU's vendor library --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// For some launches of attention kernels, a GPU's vendor library (cuDNN) can
// compute the attention instead of the kernel. This file defines, for the
// compiler and the runtime, which launches are eligible, their arguments, and
// the size of the library's workspace.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_VENDORATTENTION_H
#define KILN_ABI_VENDORATTENTION_H

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace kiln::abi {

/// The properties of an attention launch. The arguments of the launch are, in
/// this order, q, k, v, o and lse, and for gradients also dout, dq, dk and dv.
/// lse is f32; all other arguments are bf16 matrices. In each matrix, the row
/// of token t of sequence s is s * length + t, and the columns of a head are
/// contiguous. lse has `length` contiguous elements for each sequence and head:
///
///   lse = log(sum over all attended keys k of exp(scale * q k))
///
/// Query head h attends to key head h / (heads / kvHeads).
struct VendorAttention {
  bool isGradient = false;
  bool causal = false;
  int64_t sequences = 1, length = 1, heads = 1, kvHeads = 1, headDim = 8;
  /// The leading dimensions of q, k, v, o, dout, dq, dk, dv.
  std::array<int64_t, 8> strides = {};

  std::size_t arguments() const { return isGradient ? 9 : 5; }
  /// Returns the number of arguments that are matrices. Their leading
  /// dimensions are the first elements of `strides`.
  std::size_t matrices() const { return isGradient ? 8 : 4; }
  /// Returns the number of columns of the matrix whose leading dimension is
  /// strides[matrix].
  int64_t columns(std::size_t matrix) const {
    bool ofKeys = matrix == 1 || matrix == 2 || matrix == 6 || matrix == 7;
    return (ofKeys ? kvHeads : heads) * headDim;
  }
};

/// Returns the scale of the attention scores from its f64 bits, which are the
/// second integer argument of the launch.
inline double scaleOfBits(int64_t bits) {
  double scale = 0;
  std::memcpy(&scale, &bits, sizeof(scale));
  return scale;
}

/// Returns true if the vendor library supports the launch: rows must be aligned
/// to 16 bytes, and heads must have a multiple of 8 elements, at most 128.
inline bool suitsVendorLibrary(const VendorAttention &attention) {
  // These limits keep the number of attention scores of a sequence, heads *
  // length^2, within 2^56.
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

/// Returns the size in bytes of the f32 accumulator of dq, which is part of the
/// workspace of a gradient launch.
inline int64_t queryGradBytes(const VendorAttention &attention) {
  return 4 * attention.sequences * attention.heads * attention.length *
         attention.headDim;
}

/// Returns the size in bytes, rounded up to a multiple of 256, of the f32 row
/// sums of dout * o, which are part of the workspace of a gradient launch.
inline int64_t rowSumBytes(const VendorAttention &attention) {
  int64_t bytes = 4 * attention.sequences * attention.heads * attention.length;
  return (bytes + 255) / 256 * 256;
}

/// Returns the workspace bytes of a launch, a multiple of 256: 1 MiB, and for
/// gradients also queryGradBytes() and rowSumBytes(). If several query heads
/// share a key head, the workspace of a gradient launch also stores a dk and a
/// dv per query head.
inline int64_t attentionWorkspaceBytes(const VendorAttention &attention) {
  int64_t bytes = int64_t(1) << 20;
  if (!attention.isGradient)
    return bytes;
  int64_t grads = (queryGradBytes(attention) + 255) / 256 * 256;
  bytes += rowSumBytes(attention) + grads;
  return attention.heads == attention.kvHeads ? bytes : bytes + 2 * grads;
}

} // namespace kiln::abi

#endif // KILN_ABI_VENDORATTENTION_H
