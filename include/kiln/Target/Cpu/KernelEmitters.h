//===- KernelEmitters.h - CPU emitters of kilnrt kernels --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_CPU_KERNELEMITTERS_H
#define KILN_TARGET_CPU_KERNELEMITTERS_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Target/Cpu/Kernels.h"

namespace kiln::cpu {

/// Appends the function of a kernel to `module`, under the kernel's name.
llvm::FailureOr<KernelLaunch> emitKernel(mlir::ModuleOp module,
                                         rt::KernelOp kernel);

/// Returns the scratch bytes that one thread needs to run a kernel.
int64_t scratchBytes(rt::KernelOp kernel);

} // namespace kiln::cpu

#endif // KILN_TARGET_CPU_KERNELEMITTERS_H
