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

#include <cstdint>
#include <optional>
#include <string_view>

namespace kiln::abi {

enum class GemmKernel : uint8_t {
  Blas,  ///< The BLAS library; f16 and bf16 operands are widened to f32.
  Avx512 ///< kiln's kernels for f32, f16 (AVX-512), bf16 (AVX512-BF16).
};

inline constexpr std::string_view gemmKernelNames[] = {"blas", "avx512"};

inline std::string_view nameOf(GemmKernel kernel) {
  return gemmKernelNames[static_cast<int>(kernel)];
}

inline std::optional<GemmKernel> gemmKernelOf(std::string_view name) {
  for (int i = 0; i <= static_cast<int>(GemmKernel::Avx512); ++i)
    if (name == gemmKernelNames[i])
      return static_cast<GemmKernel>(i);
  return std::nullopt;
}

} // namespace kiln::abi

#endif // KILN_ABI_GEMMKERNEL_H
