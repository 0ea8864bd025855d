//===- Kernels.h - GPU kernel emitters, one per family ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every emitter appends one gpu.func (see GpuBuilder.h for its signature) to
// the module of all kernels. The same functions are translated to PTX and to
// code for the emulated device. KernelShapes.h describes arguments and
// immediates.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_GPU_KERNELS_H
#define KILN_TARGET_GPU_KERNELS_H

#include "kiln/Support/WeightEncoding.h"
#include "kiln/Target/Common/EmitterTable.h"
#include "kiln/Target/Common/KernelShapes.h"

namespace mlir::gpu {
class GPUModuleOp;
} // namespace mlir::gpu

namespace kiln::gpu {

/// The geometry with which the runtime launches a kernel.
struct KernelLaunch {
  int64_t units = 0;         ///< Total number of work units, such as rows.
  int64_t unitsPerBlock = 1; ///< Work units per thread block.
  int64_t threads = 1;       ///< Threads per block.
  int64_t sharedBytes = 0;   ///< Shared memory per block.
  int64_t tableMembers = 0;  ///< Maximum number of launches that become one
                             ///< launch; 0: launches are never grouped.
};

/// The alignments in bytes of the operands, then of the results, that hold in
/// all launches of a kernel.
using Alignments = llvm::ArrayRef<int64_t>;

/// An entry of the emitter table: appends the function of a kernel to `kernels`
/// under the name of the kernel.
using KernelEmitter = llvm::FailureOr<KernelLaunch> (*)(
    mlir::gpu::GPUModuleOp kernels, rt::KernelOp kernel, Alignments alignments);
using KernelEmitters = EmitterTable<KernelEmitter>;

/// If RowProgram::flat and RowShape::isDense() are true, a work unit is one
/// element. The kernel then does not depend on the tensor sizes, unless the
/// program has SumOfSlices loads, which load sums over a leading dimension.
/// Otherwise a work unit is a row, a chunk of rows, or 64 columns of a row or
/// chunk; see RowKernel.cpp.
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
/// Emit the kernel of `kiln.dequantize`, which decodes a weight with the given
/// layout to elements of `type`. The arguments are the operand `codes`, the
/// operand `table` (NF4 only), and the result.
llvm::FailureOr<KernelLaunch> emitDequantize(mlir::gpu::GPUModuleOp kernels,
                                             llvm::StringRef name,
                                             const support::Nf4Layout &layout,
                                             mlir::Type type,
                                             Alignments alignments);
llvm::FailureOr<KernelLaunch> emitDequantize(mlir::gpu::GPUModuleOp kernels,
                                             llvm::StringRef name,
                                             const support::Int8Layout &layout,
                                             mlir::Type type,
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
