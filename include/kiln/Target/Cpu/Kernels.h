//===- Kernels.h - Emitters of cpu kernels, one per family ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Every emitter appends one function with the kernel ABI of
// docs/program-format.md to a module:
//
//   void name(char *const *args, const int64_t *imm, int64_t begin,
//             int64_t end, char *scratch)
//
// args: operands first, then results. The module is then turned into machine
// code by CodeGen.h. Shapes are constants of the kernel; what differs between
// layers (RNG keys, scales) is read from `imm`.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_CPU_KERNELS_H
#define KILN_TARGET_CPU_KERNELS_H

#include "kiln/Dialect/Kiln/IR/RowProgram.h"

#include "mlir/IR/BuiltinOps.h"

namespace kiln::cpu {

/// How the runtime runs a kernel.
struct KernelLaunch {
  int64_t units = 0;        ///< work units in all
  int64_t grain = 1;        ///< units per call that make a call worth its cost
  int64_t scratchBytes = 0; ///< per thread
};

/// Where the rows of a rank-2 operand or result lie: element (r, c) is at
/// r * rowStride + c. Dense tensors have rowStride == columns.
struct Layout {
  int64_t rowStride = 0;
};

/// Row family. `layouts`: operands, then results; only Identity and RowElement
/// loads and Full stores look at it (gathered tables, modulo tables are dense).
/// The columns are the program's, whatever the tensor's own shape.
/// imm: the program's immediates.
///
/// Units are rows, or chunks of rows with column partials. In a flat program
/// whose accesses are all dense, a unit is one element, and the grain a
/// multiple of 64: the kernel then knows no size (unless it adds up slices), so
/// one kernel serves tensors of all sizes in a multi_launch.
KernelLaunch emitRowKernel(mlir::ModuleOp module, llvm::StringRef name,
                           const row::RowProgram &program,
                           llvm::ArrayRef<Layout> layouts);

/// Like emitRowKernel, for a program without reductions used as epilogue of a
/// matrix product: works on columns [imm[0], imm[1]) of rows [begin, end); the
/// program's own immediates follow.
KernelLaunch emitRowEpilogue(mlir::ModuleOp module, llvm::StringRef name,
                             const row::RowProgram &program,
                             llvm::ArrayRef<Layout> layouts);

/// What attention kernels are specialised for.
struct AttentionShape {
  int64_t sequences = 0, length = 0, heads = 0, kvHeads = 0, headDim = 0;
  bool causal = false;
  double dropout = 0;    ///< probability; 0 = no mask code at all
  bool takesRng = false; ///< an argument, used or not; dropout needs it
  int64_t kvTile = 64;   ///< keys per tile: part of the formula
  mlir::Type elementType;
  /// Elements from one row to the next of q, k, v, o (dense: heads * headDim).
  int64_t qStride = 0, kStride = 0, vStride = 0, oStride = 0;
};

/// args: q, k, v, [rng if takesRng], o, lse. imm: RNG key, bits of the f64
/// scale.
KernelLaunch emitAttention(mlir::ModuleOp module, llvm::StringRef name,
                           const AttentionShape &shape);

/// args: q, k, v, o, lse, dout, [rng], dq, dk, dv. imm as above. The gradients'
/// row strides follow q, k, v by default.
struct AttentionGradShape : AttentionShape {
  int64_t doutStride = 0, dqStride = 0, dkStride = 0, dvStride = 0;
};
KernelLaunch emitAttentionGrad(mlir::ModuleOp module, llvm::StringRef name,
                               const AttentionGradShape &shape);

/// args: x, cos, sin, y; y may be x. `period`: rows per sequence.
struct RopeShape {
  int64_t rows = 0, heads = 0, headDim = 0, period = 0;
  bool inverse = false;
  mlir::Type elementType;
  int64_t xStride = 0, yStride = 0;
};
KernelLaunch emitRope(mlir::ModuleOp module, llvm::StringRef name,
                      const RopeShape &shape);

/// args: tokens (i32), dy [tokens, cols], table gradient [vocabulary, cols].
/// imm[0] = 0: the table gradient starts from zero; else it is added to. Units
/// are column panels: every unit walks all tokens in order.
struct ScatterShape {
  int64_t tokens = 0, vocabulary = 0, cols = 0;
  mlir::Type elementType;
  int64_t dyStride = 0;
};
KernelLaunch emitScatter(mlir::ModuleOp module, llvm::StringRef name,
                         const ScatterShape &shape);

/// General strided copy, and sum, over up to 6 dimensions: for every index of
/// `shape`, dst[sum i*dstStrides] = src[sum i*srcStrides] (a source stride of 0
/// repeats). With `reduceShape` (srcReduceStrides), the element is the sum or
/// maximum over those further dimensions, in index order. `zeroRows` > 0
/// (pad): first fills that many rows of dst, `zeroColumns` elements each and
/// `zeroStride` apart, with zeros. args: src, dst.
/// `dstOffset`, `srcOffset`: in elements.
struct PermuteShape {
  llvm::SmallVector<int64_t, 4> shape, srcStrides, dstStrides;
  llvm::SmallVector<int64_t, 4> reduceShape, srcReduceStrides;
  bool reduceMax = false;
  int64_t srcOffset = 0, dstOffset = 0;
  int64_t zeroRows = 0, zeroColumns = 0, zeroStride = 0;
  mlir::Type elementType;
};
KernelLaunch emitPermute(mlir::ModuleOp module, llvm::StringRef name,
                         const PermuteShape &shape);

/// Codes of a few bits per element: see bucket_encode and bucket_decode.
struct BucketShape {
  int64_t elements = 0;
  mlir::Type elementType;
  llvm::ArrayRef<double> table; ///< borders, or levels
};
/// args: x, codes.
KernelLaunch emitBucketEncode(mlir::ModuleOp module, llvm::StringRef name,
                              const BucketShape &shape);
/// args: codes, dy, dx; dx may be dy.
KernelLaunch emitBucketDecode(mlir::ModuleOp module, llvm::StringRef name,
                              const BucketShape &shape);

/// Random sums of rows: see sketch_rows. args: x, rng, y. imm: RNG key.
struct SketchShape {
  int64_t sequences = 0, length = 0, kept = 0, columns = 0;
  mlir::Type elementType;
  int64_t xStride = 0;
};
KernelLaunch emitSketch(mlir::ModuleOp module, llvm::StringRef name,
                        const SketchShape &shape);

} // namespace kiln::cpu

#endif // KILN_TARGET_CPU_KERNELS_H
