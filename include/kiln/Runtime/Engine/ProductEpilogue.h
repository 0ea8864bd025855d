//===- ProductEpilogue.h - What a library does with sums --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What the library of a GPU does with the sums of a product before it rounds
// them, and with its operands while it reads them. `u` below is a sum and its
// bias, in f32; gelu is the tanh form. Shared by compiler and runtime.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_ENGINE_PRODUCTEPILOGUE_H
#define KILN_RUNTIME_ENGINE_PRODUCTEPILOGUE_H

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln {

enum class ProductEpilogue {
  None,
  Bias,        ///< c = u
  GeluBias,    ///< c = gelu(u)
  GeluAuxBias, ///< c = gelu(u), aux = u
  GeluGrad,    ///< c = gelu'(aux) times the sum
  BiasGradA,   ///< bias[i] = the sum of row i of op(a)
  BiasGradB    ///< bias[j] = the sum of column j of op(b)
};

/// As programs are written; those behind the first have one.
inline constexpr std::string_view productEpilogueNames[] = {
    "", "bias", "gelu_bias", "gelu_aux_bias", "dgelu", "bgrad_a", "bgrad_b"};

inline std::string_view nameOf(ProductEpilogue epilogue) {
  return productEpilogueNames[static_cast<int>(epilogue)];
}

inline std::optional<ProductEpilogue> productEpilogueOf(std::string_view name) {
  for (int i = 1; i <= static_cast<int>(ProductEpilogue::BiasGradB); ++i)
    if (name == productEpilogueNames[i])
      return static_cast<ProductEpilogue>(i);
  return std::nullopt;
}

/// Whether the row `bias` is written.
inline bool writesBias(ProductEpilogue epilogue) {
  return epilogue == ProductEpilogue::BiasGradA ||
         epilogue == ProductEpilogue::BiasGradB;
}

/// Whether there is a row `bias`.
inline bool hasBias(ProductEpilogue epilogue) {
  return epilogue != ProductEpilogue::None &&
         epilogue != ProductEpilogue::GeluGrad;
}

/// Whether the matrix `aux` is written.
inline bool writesAux(ProductEpilogue epilogue) {
  return epilogue == ProductEpilogue::GeluAuxBias;
}

/// Whether there is a matrix `aux`.
inline bool hasAux(ProductEpilogue epilogue) {
  return writesAux(epilogue) || epilogue == ProductEpilogue::GeluGrad;
}

/// Whether gelu is taken, or its derivative.
inline bool takesGelu(ProductEpilogue epilogue) {
  return hasAux(epilogue) || epilogue == ProductEpilogue::GeluBias;
}

/// Elements of the row `bias` of a product with m rows and n columns.
inline int64_t biasLength(ProductEpilogue epilogue, int64_t m, int64_t n) {
  return epilogue == ProductEpilogue::BiasGradA ? m : n;
}

/// The library takes no aux whose rows have another number of elements.
inline constexpr int64_t auxRowMultiple = 8;
/// Nor one that begins elsewhere, in bytes.
inline constexpr int64_t auxAlignment = 16;

} // namespace kiln

#endif // KILN_RUNTIME_ENGINE_PRODUCTEPILOGUE_H
