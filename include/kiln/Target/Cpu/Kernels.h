//===- Kernels.h - CPU kernel emitters, one per family ----------*- C++ -*-===//
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
// KernelShapes.h describes `args` and `imm`. CodeGen.h compiles the module.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_CPU_KERNELS_H
#define KILN_TARGET_CPU_KERNELS_H

#include "kiln/Support/WeightEncoding.h"
#include "kiln/Target/Common/EmitterTable.h"
#include "kiln/Target/Common/KernelShapes.h"

#include "mlir/IR/BuiltinOps.h"

namespace kiln::cpu {

/// The geometry with which the runtime calls a kernel.
struct KernelLaunch {
  int64_t units = 0;        ///< Total number of work units, such as rows.
  int64_t grain = 1;        ///< Minimum number of units per call.
  int64_t scratchBytes = 0; ///< Scratch memory per thread.
};

/// An entry of the emitter table.
struct KernelEmitter {
  /// Appends the function of a kernel, under the kernel's name, to `module`.
  llvm::FailureOr<KernelLaunch> (*emit)(mlir::ModuleOp module,
                                        rt::KernelOp kernel);
  /// Returns the bytes of scratch per thread. Null if the kernel uses no
  /// scratch.
  int64_t (*scratchBytes)(rt::KernelOp kernel) = nullptr;
};
using KernelEmitters = EmitterTable<KernelEmitter>;

/// If RowProgram::flat and RowShape::isDense() are true, a work unit is one
/// element and the grain is a multiple of 64. Otherwise a work unit is a row,
/// or a chunk of rows if the program has ColumnPartial stores (sums of columns
/// over a chunk). If the work unit is one element, the kernel does not depend
/// on the tensor sizes, and launches of all sizes can share it. Programs with
/// SumOfSlices loads, which load sums over a leading dimension, are an
/// exception.
KernelLaunch emitRowKernel(mlir::ModuleOp module, llvm::StringRef name,
                           const RowShape &shape);

/// Emits a program without reductions as the epilogue of a GEMM. The function
/// works on columns [imm[0], imm[1]) of rows [begin, end).
KernelLaunch emitRowEpilogue(mlir::ModuleOp module, llvm::StringRef name,
                             const RowShape &shape);

KernelLaunch emitAttention(mlir::ModuleOp module, llvm::StringRef name,
                           const AttentionShape &shape);
KernelLaunch emitAttentionGrad(mlir::ModuleOp module, llvm::StringRef name,
                               const AttentionGradShape &shape);
KernelLaunch emitRope(mlir::ModuleOp module, llvm::StringRef name,
                      const RopeShape &shape);
/// A work unit is a range of columns of the table gradient. Each unit processes
/// all tokens in order.
KernelLaunch emitScatter(mlir::ModuleOp module, llvm::StringRef name,
                         const ScatterShape &shape);
KernelLaunch emitPermute(mlir::ModuleOp module, llvm::StringRef name,
                         const PermuteShape &shape);
KernelLaunch emitBucketEncode(mlir::ModuleOp module, llvm::StringRef name,
                              const BucketShape &shape);
KernelLaunch emitBucketDecode(mlir::ModuleOp module, llvm::StringRef name,
                              const BucketShape &shape);
/// Emit the kernel of `kiln.dequantize`, which decodes a weight with the given
/// layout to elements of `type`. The arguments are the operand `codes`, the
/// operand `table` (NF4 only), and the result.
KernelLaunch emitDequantize(mlir::ModuleOp module, llvm::StringRef name,
                            const support::Nf4Layout &layout, mlir::Type type);
KernelLaunch emitDequantize(mlir::ModuleOp module, llvm::StringRef name,
                            const support::Int8Layout &layout, mlir::Type type);
KernelLaunch emitSketch(mlir::ModuleOp module, llvm::StringRef name,
                        const SketchShape &shape);

} // namespace kiln::cpu

#endif // KILN_TARGET_CPU_KERNELS_H
