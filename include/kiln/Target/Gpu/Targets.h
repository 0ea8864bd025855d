//===- Targets.h - The targets cuda and cuda-emu ----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_GPU_TARGETS_H
#define KILN_TARGET_GPU_TARGETS_H

#include "mlir/IR/DialectRegistry.h"

namespace kiln {

/// Registers the target cuda: NVIDIA GPUs.
void registerCudaTarget(mlir::DialectRegistry &registry);

/// Registers the target cuda-emu: a GPU emulated on the host, which also checks
/// the kernels. Its plans equal those of cuda.
void registerCudaEmuTarget(mlir::DialectRegistry &registry);

} // namespace kiln

#endif // KILN_TARGET_GPU_TARGETS_H
