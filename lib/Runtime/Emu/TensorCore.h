//===- TensorCore.h - Matrix operations of emulated warps -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements exp2, and the tensor core operations of kiln/Abi/EmulatedKernel.h.
// A tensor core operation receives the operands of all lanes of a warp.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_EMU_TENSORCORE_H
#define KILN_LIB_RUNTIME_EMU_TENSORCORE_H

#include <array>
#include <cstdint>

namespace kiln::runtime::emu {

constexpr int64_t tensorLanes = 32;

/// The operands of one lane for kiln_emu_load_matrices.
struct MatrixLoad {
  const char *row;
  uint32_t *words;
};
void loadMatrices(const std::array<MatrixLoad, tensorLanes> &lanes,
                  int32_t count, bool isTransposed);

/// The operands of one lane for kiln_emu_multiply_matrices.
struct Mma {
  const uint32_t *words;
  float *sums;
};
/// The elements of the factors are f16 if `isHalf` is true, and otherwise bf16.
void multiplyMatrices(const std::array<Mma, tensorLanes> &lanes, bool isHalf);

float exp2(float x);

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_TENSORCORE_H
