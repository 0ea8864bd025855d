//===- Ptx.h - Compiles GPU kernels to PTX ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_GPU_PTX_H
#define KILN_TARGET_GPU_PTX_H

#include "mlir/IR/BuiltinOps.h"
#include "llvm/Support/Error.h"

#include <string>
#include <vector>

namespace kiln::gpu {

/// Returns an error unless `chip` is LLVM's name of an NVIDIA architecture of
/// sm_80 or newer, such as "sm_90".
llvm::Error checkChip(llvm::StringRef chip);

/// Returns one PTX text per element of `chips`, each with all kernels of the
/// gpu.module in `module`. Compiles for the chips in parallel. Does not change
/// `module` and needs no CUDA toolkit. Uses no fast-math flags and no implicit
/// FMA: +, -, *, /, sqrt and fma round as IEEE 754 specifies. Returns an error
/// if a kernel calls a library function.
llvm::Expected<std::vector<std::string>>
compileToPtx(mlir::ModuleOp module, llvm::ArrayRef<std::string> chips);

/// Returns the PTX for one chip.
llvm::Expected<std::string> compileToPtx(mlir::ModuleOp module,
                                         llvm::StringRef chip);

} // namespace kiln::gpu

#endif // KILN_TARGET_GPU_PTX_H
