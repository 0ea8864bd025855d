//===- Kernels.h - Emitters of gpu kernels, one per family ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every emitter appends one gpu.func (GpuBuilder.h has its shape) to the module
// of all kernels. The same functions are translated to PTX and to code for the
// emulated device. KernelShapes.h says what arguments and immediates are.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_GPU_KERNELS_H
#define KILN_TARGET_GPU_KERNELS_H

#include "kiln/Target/Common/KernelShapes.h"

namespace mlir::gpu {
class GPUModuleOp;
} // namespace mlir::gpu

namespace kiln::gpu {

/// How the runtime launches a kernel.
struct KernelLaunch {
  int64_t units = 0;         ///< work units in all
  int64_t unitsPerBlock = 1; ///< of them for a block
  int64_t threads = 1;       ///< of a block
  int64_t sharedBytes = 0;   ///< of a block
  int64_t tableMembers = 0;  ///< room in the table of arguments; 0: none
};

/// What is known of where every operand, then every result lies, in all
/// launches of a kernel: each address is a multiple of it, in bytes.
using Alignments = llvm::ArrayRef<int64_t>;

/// Units are elements in a flat program whose accesses are all dense (the
/// kernel then knows no size, unless it adds up slices), else rows, chunks of
/// rows, or those for 64 columns: RowKernel.cpp has the shapes.
llvm::FailureOr<KernelLaunch> emitRowKernel(mlir::gpu::GPUModuleOp kernels,
                                            llvm::StringRef name,
                                            const RowShape &shape,
                                            Alignments alignments);

llvm::FailureOr<KernelLaunch> emitRope(mlir::gpu::GPUModuleOp kernels,
                                       llvm::StringRef name,
                                       const RopeShape &shape,
                                       Alignments alignments);
llvm::FailureOr<KernelLaunch> emitScatter(mlir::gpu::GPUModuleOp kernels,
                                          llvm::StringRef name,
                                          const ScatterShape &shape,
                                          Alignments alignments);
llvm::FailureOr<KernelLaunch> emitPermute(mlir::gpu::GPUModuleOp kernels,
                                          llvm::StringRef name,
                                          const PermuteShape &shape,
                                          Alignments alignments);
llvm::FailureOr<KernelLaunch> emitBucketEncode(mlir::gpu::GPUModuleOp kernels,
                                               llvm::StringRef name,
                                               const BucketEncodeShape &shape,
                                               Alignments alignments);
llvm::FailureOr<KernelLaunch> emitBucketDecode(mlir::gpu::GPUModuleOp kernels,
                                               llvm::StringRef name,
                                               const BucketDecodeShape &shape,
                                               Alignments alignments);
llvm::FailureOr<KernelLaunch> emitSketch(mlir::gpu::GPUModuleOp kernels,
                                         llvm::StringRef name,
                                         const SketchShape &shape,
                                         Alignments alignments);
llvm::FailureOr<KernelLaunch> emitAttention(mlir::gpu::GPUModuleOp kernels,
                                            llvm::StringRef name,
                                            const AttentionShape &shape,
                                            Alignments alignments);
llvm::FailureOr<KernelLaunch> emitAttentionGrad(mlir::gpu::GPUModuleOp kernels,
                                                llvm::StringRef name,
                                                const AttentionGradShape &shape,
                                                Alignments alignments);

} // namespace kiln::gpu

#endif // KILN_TARGET_GPU_KERNELS_H
