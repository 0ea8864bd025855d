//===- Kernels.h - Emitters of cpu kernels, one per family ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every emitter appends one function with the kernel ABI of
// docs/reference/program-format.md to a module:
//
//   void name(char *const *args, const int64_t *imm, int64_t begin,
//             int64_t end, char *scratch)
//
// KernelShapes.h says what `args` and `imm` are. The module is then turned into
// machine code by CodeGen.h.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_CPU_KERNELS_H
#define KILN_TARGET_CPU_KERNELS_H

#include "kiln/Target/Common/KernelShapes.h"

#include "mlir/IR/BuiltinOps.h"

namespace kiln::cpu {

/// How the runtime runs a kernel.
struct KernelLaunch {
  int64_t units = 0;        ///< work units in all
  int64_t grain = 1;        ///< units per call that make a call worth its cost
  int64_t scratchBytes = 0; ///< per thread
};

/// Units are rows, or chunks of rows with column partials. In a flat program
/// whose accesses are all dense, a unit is one element, and the grain a
/// multiple of 64: the kernel then knows no size (unless it adds up slices), so
/// one kernel serves launches of all sizes.
KernelLaunch emitRowKernel(mlir::ModuleOp module, llvm::StringRef name,
                           const RowShape &shape);

/// Like emitRowKernel, for a program without reductions used as epilogue of a
/// matrix product: works on columns [imm[0], imm[1]) of rows [begin, end).
KernelLaunch emitRowEpilogue(mlir::ModuleOp module, llvm::StringRef name,
                             const RowShape &shape);

KernelLaunch emitAttention(mlir::ModuleOp module, llvm::StringRef name,
                           const AttentionShape &shape);
KernelLaunch emitAttentionGrad(mlir::ModuleOp module, llvm::StringRef name,
                               const AttentionGradShape &shape);
KernelLaunch emitRope(mlir::ModuleOp module, llvm::StringRef name,
                      const RopeShape &shape);
/// Units are column panels: every unit walks all tokens in order.
KernelLaunch emitScatter(mlir::ModuleOp module, llvm::StringRef name,
                         const ScatterShape &shape);
KernelLaunch emitPermute(mlir::ModuleOp module, llvm::StringRef name,
                         const PermuteShape &shape);
KernelLaunch emitBucketEncode(mlir::ModuleOp module, llvm::StringRef name,
                              const BucketShape &shape);
KernelLaunch emitBucketDecode(mlir::ModuleOp module, llvm::StringRef name,
                              const BucketShape &shape);
KernelLaunch emitSketch(mlir::ModuleOp module, llvm::StringRef name,
                        const SketchShape &shape);

} // namespace kiln::cpu

#endif // KILN_TARGET_CPU_KERNELS_H
