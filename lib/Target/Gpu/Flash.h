//===- Flash.h - Emitters of attention on tensor cores ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_FLASH_H
#define KILN_LIB_TARGET_GPU_FLASH_H

#include "kiln/Target/Gpu/Kernels.h"

namespace kiln::gpu {

/// Returns true if the two emitters below support `shape`: q, k, v, o and their
/// gradients in bf16 or f16 (lse in f32), and head dimensions 16, 32, ..., 128.
/// The returned value must not depend on strides and alignments: other kernels
/// round differently, so the bits of the attention result would then depend on
/// strides and alignments too.
bool suitsTensorCores(const AttentionShape &shape);

llvm::FailureOr<KernelLaunch> emitFlashAttention(mlir::gpu::GPUModuleOp kernels,
                                                 llvm::StringRef name,
                                                 const AttentionShape &shape,
                                                 Alignments alignments);
llvm::FailureOr<KernelLaunch>
emitFlashAttentionGrad(mlir::gpu::GPUModuleOp kernels, llvm::StringRef name,
                       const AttentionGradShape &shape, Alignments alignments);

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_FLASH_H
