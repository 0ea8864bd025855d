//===- Ptx.h - From GPU kernels to PTX --------------------------*- C++ -*-===//
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

/// Fails unless `chip` is an NVIDIA architecture that code can be made for:
/// LLVM's name of it, e.g. "sm_90", of sm_80 or newer.
llvm::Error checkChip(llvm::StringRef chip);

/// PTX of all kernels of the gpu.module in `module`, which stays as it is, for
/// each of `chips`, which compile in parallel. Needs no CUDA toolkit. No
/// fast-math, no fma but those written: + - * / sqrt and fma round as IEEE 754
/// says. A kernel that needs a library function is refused.
llvm::Expected<std::vector<std::string>>
compileToPtx(mlir::ModuleOp module, llvm::ArrayRef<std::string> chips);

/// The same for one chip.
llvm::Expected<std::string> compileToPtx(mlir::ModuleOp module,
                                         llvm::StringRef chip);

} // namespace kiln::gpu

#endif // KILN_TARGET_GPU_PTX_H
