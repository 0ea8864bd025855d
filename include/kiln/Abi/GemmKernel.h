//===- GemmKernel.h - What computes the tiles of a GEMM ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// On a CPU, each GEMM names the kernel that computes its tiles, because kernels
// round differently. The compiler chooses the kernel from the element type and
// the features of the processor, and writes the kernel's name into the program.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_GEMMKERNEL_H
#define KILN_ABI_GEMMKERNEL_H

#include "kiln/Support/ElementType.h"

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln::abi {

enum class GemmKernel : uint8_t {
  Blas,   ///< The BLAS library; f16 and bf16 operands are widened to f32.
  Avx512, ///< kiln's kernels for f32, f16 (AVX-512), bf16 (AVX512-BF16).
  Amx     ///< kiln's kernel for bf16 (AMX-BF16).
};

inline constexpr std::string_view gemmKernelNames[] = {"blas", "avx512", "amx"};
/// The names, for messages.
inline constexpr std::string_view gemmKernelChoices = "blas, avx512 or amx";

inline std::string_view nameOf(GemmKernel kernel) {
  return gemmKernelNames[static_cast<int>(kernel)];
}

inline std::optional<GemmKernel> gemmKernelOf(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(GemmKernel::Amx); ++i)
    if (name == gemmKernelNames[i])
      return static_cast<GemmKernel>(i);
  return std::nullopt;
}

/// Returns true if the kernel multiplies operands of `type`.
constexpr bool canMultiply(GemmKernel kernel, support::ElementType type) {
  using support::ElementType;
  if (kernel == GemmKernel::Amx)
    return type == ElementType::BF16;
  bool isNarrow = type == ElementType::BF16 || type == ElementType::F16;
  return isNarrow || type == ElementType::F32 ||
         (kernel == GemmKernel::Blas && type == ElementType::F64);
}

/// The element types that the kernel multiplies, for messages.
constexpr std::string_view operandTypesOf(GemmKernel kernel) {
  return kernel == GemmKernel::Amx      ? "bf16"
         : kernel == GemmKernel::Avx512 ? "f32, f16 or bf16"
                                        : "f64, f32, f16 or bf16";
}

} // namespace kiln::abi

#endif // KILN_ABI_GEMMKERNEL_H
