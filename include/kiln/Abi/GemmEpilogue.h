//===- GemmEpilogue.h - Epilogues of vendor GEMMs ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The operations that a vendor library (cuBLASLt) can fuse with a GEMM:
// functions that the library applies to the f32 accumulators before it rounds
// them, and sums over the rows or columns of an operand. A GEMM multiplies
// op(a) by op(b), where op(x) is x or its transpose, and stores the matrix c.
// Below, `u` is the accumulator plus the bias, and gelu is the tanh
// approximation of GELU. The compiler writes the names of the epilogues into
// programs, and the runtime reads them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_GEMMEPILOGUE_H
#define KILN_ABI_GEMMEPILOGUE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln::abi {

/// An operation that is fused with a GEMM whose result is c. Below, u is the
/// accumulator plus the bias.
enum class GemmEpilogue {
  None,
  Bias,        ///< c = u
  GeluBias,    ///< c = gelu(u)
  GeluAuxBias, ///< c = gelu(u), aux = u
  GeluGrad,    ///< c = gelu'(aux) * accumulator
  BiasGradA,   ///< bias[i] = the sum of row i of op(a)
  BiasGradB    ///< bias[j] = the sum of column j of op(b)
};

/// The names of the epilogues in programs, indexed by GemmEpilogue. The name of
/// GemmEpilogue::None is empty and does not occur in programs.
inline constexpr std::string_view gemmEpilogueNames[] = {
    "", "bias", "gelu_bias", "gelu_aux_bias", "dgelu", "bgrad_a", "bgrad_b"};

inline std::string_view nameOf(GemmEpilogue epilogue) {
  return gemmEpilogueNames[static_cast<int>(epilogue)];
}

inline std::optional<GemmEpilogue> gemmEpilogueOf(std::string_view name) {
  for (int i = 1; i <= static_cast<int>(GemmEpilogue::BiasGradB); ++i)
    if (name == gemmEpilogueNames[i])
      return static_cast<GemmEpilogue>(i);
  return std::nullopt;
}

/// Returns true if the GEMM writes the vector `bias`.
inline bool writesBias(GemmEpilogue epilogue) {
  return epilogue == GemmEpilogue::BiasGradA ||
         epilogue == GemmEpilogue::BiasGradB;
}

/// Returns true if the GEMM reads or writes a vector `bias`.
inline bool hasBias(GemmEpilogue epilogue) {
  return epilogue != GemmEpilogue::None && epilogue != GemmEpilogue::GeluGrad;
}

/// Returns true if the GEMM writes the matrix `aux`.
inline bool writesAux(GemmEpilogue epilogue) {
  return epilogue == GemmEpilogue::GeluAuxBias;
}

/// Returns true if the GEMM reads or writes a matrix `aux`.
inline bool hasAux(GemmEpilogue epilogue) {
  return writesAux(epilogue) || epilogue == GemmEpilogue::GeluGrad;
}

/// Returns true if the epilogue computes GELU or its derivative.
inline bool usesGelu(GemmEpilogue epilogue) {
  return hasAux(epilogue) || epilogue == GemmEpilogue::GeluBias;
}

/// Returns the number of elements of the vector `bias` of a GEMM with an m x n
/// result.
inline int64_t biasLength(GemmEpilogue epilogue, int64_t m, int64_t n) {
  return epilogue == GemmEpilogue::BiasGradA ? m : n;
}

/// The leading dimension of `aux` must be a multiple of this number of
/// elements.
inline constexpr int64_t auxRowMultiple = 8;
/// The address of `aux` must be a multiple of this number of bytes.
inline constexpr int64_t auxAlignment = 16;

} // namespace kiln::abi

#endif // KILN_ABI_GEMMEPILOGUE_H
