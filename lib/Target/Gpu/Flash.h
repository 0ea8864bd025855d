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

/// Whether the two emitters below are for `shape`: q, k, v, o and their
/// gradients of bf16 (lse is f32), and heads of 16, 32, ... 128 elements. Where
/// things lie decides nothing, since these kernels round as no others do.
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
