//===- KernelEmitters.h - GPU emitters of kilnrt kernels --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_GPU_KERNELEMITTERS_H
#define KILN_TARGET_GPU_KERNELEMITTERS_H

#include "kiln/Target/Gpu/Kernels.h"

namespace kiln::gpu {

/// Returns the gpu.module of all kernels in `module` and creates it on first
/// use.
mlir::gpu::GPUModuleOp getKernelModule(mlir::ModuleOp module);

/// Appends the function of a kernel to `kernels`, under the kernel's name. The
/// code may assume the argument alignments that hold in all launches of the
/// kernel in its module. If some of the launches form groups, the parameter of
/// the function is a table with the arguments of all launches of a group.
llvm::FailureOr<KernelLaunch> emitKernel(mlir::gpu::GPUModuleOp kernels,
                                         rt::KernelOp kernel);

} // namespace kiln::gpu

#endif // KILN_TARGET_GPU_KERNELEMITTERS_H
