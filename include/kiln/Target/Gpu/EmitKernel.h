//===- EmitKernel.h - From kilnrt kernels to the emitters -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_GPU_EMITKERNEL_H
#define KILN_TARGET_GPU_EMITKERNEL_H

#include "kiln/Target/Gpu/Kernels.h"

namespace kiln::gpu {

/// The gpu.module that kernels go to, in `module`; made at first use.
mlir::gpu::GPUModuleOp getKernelModule(mlir::ModuleOp module);

/// Appends the function of a kernel, under the kernel's name. It may rely on
/// where the launches of the kernel in its module have their arguments, and has
/// a table of members where some of them are a group.
llvm::FailureOr<KernelLaunch> emitKernel(mlir::gpu::GPUModuleOp kernels,
                                         rt::KernelOp kernel);

} // namespace kiln::gpu

#endif // KILN_TARGET_GPU_EMITKERNEL_H
