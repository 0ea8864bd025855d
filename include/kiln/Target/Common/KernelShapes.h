//===- KernelShapes.h - What kernels are specialised for --------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One struct per family: all that an emitter has to know of a kernel. Arguments
// are operands first, then results. Shapes are constants of a kernel; what
// differs between layers (RNG keys, scales) are its immediates.
//
// Element types are those of elements in memory. Arithmetic on them is in
// fullPrecision() of the type, and every result is rounded once.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_KERNELSHAPES_H
#define KILN_TARGET_COMMON_KERNELSHAPES_H

#include "kiln/Dialect/Kiln/IR/RowProgram.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include <variant>

namespace kiln {

/// Where the rows of a rank-2 operand or result lie: element (r, c) is at
/// r * rowStride + c. Dense tensors have rowStride == columns.
struct Layout {
  int64_t rowStride = 0;
};

/// imm: the program's immediates; an epilogue has the first and last column of
/// its tile in front.
struct RowShape {
  row::RowProgram program;
  /// Operands, then results; only Identity and RowElement loads and Full stores
  /// look at it (gathered tables, modulo tables are dense). The columns are the
  /// program's, whatever the tensor's own shape.
  llvm::SmallVector<Layout> layouts;
  /// Of a matrix product: works on a tile.
  bool epilogue = false;

  /// Whether the rows of everything that is accessed element by element follow
  /// each other.
  bool isDense() const;
};

/// args: q, k, v, [rng if takesRng], o, lse. imm: RNG key, bits of the f64
/// scale. lse is in full precision.
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

/// args: q, k, v, o, lse, dout, [rng], dq, dk, dv. imm as above.
struct AttentionGradShape : AttentionShape {
  int64_t doutStride = 0, dqStride = 0, dkStride = 0, dvStride = 0;
};

/// args: x, cos, sin, y; y may be x. `period`: rows per sequence. cos and sin
/// are in full precision.
struct RopeShape {
  int64_t rows = 0, heads = 0, headDim = 0, period = 0;
  bool inverse = false;
  mlir::Type elementType;
  int64_t xStride = 0, yStride = 0;
};

/// args: tokens (i32), dy [tokens, cols], table gradient [vocabulary, cols].
/// imm[0] = 0: the table gradient starts from zero; else it is added to, in
/// memory: it is in full precision. Tokens equal to `paddingIndex` add nothing.
struct ScatterShape {
  int64_t tokens = 0, vocabulary = 0, cols = 0;
  std::optional<int64_t> paddingIndex;
  mlir::Type elementType; ///< of the table gradient
  mlir::Type dyType;
  int64_t dyStride = 0;
};

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
  mlir::Type elementType; ///< of dst
  mlir::Type sourceType;  ///< a sum of bf16 may be f32; else elementType
};

/// Codes of a few bits per element: see bucket_encode and bucket_decode.
struct BucketShape {
  int64_t elements = 0;
  mlir::Type elementType;
  llvm::ArrayRef<double> table; ///< borders, or levels
};
/// args: x, codes.
struct BucketEncodeShape : BucketShape {};
/// args: codes, dy, dx; dx may be dy.
struct BucketDecodeShape : BucketShape {};

/// Random sums of rows: see sketch_rows. args: x, rng, y. imm: RNG key.
struct SketchShape {
  int64_t sequences = 0, length = 0, kept = 0, columns = 0;
  mlir::Type elementType;
  int64_t xStride = 0;
};

using KernelShape =
    std::variant<RowShape, AttentionShape, AttentionGradShape, RopeShape,
                 ScatterShape, PermuteShape, BucketEncodeShape,
                 BucketDecodeShape, SketchShape>;

/// The order in which an emitter takes operands and results, by their numbers:
/// row programs as listed; a single op in the order of its operands, but an
/// accumulation operand, which is its result.
llvm::SmallVector<unsigned> argumentOrder(rt::KernelOp kernel);

/// An integer argument of a kernel, or the bits of a real one, plus `stride`
/// per iteration of the enclosing loop.
struct LaunchImmediate {
  int64_t value = 0, stride = 0;
};

/// What a kernel gets for the arguments of a launch, or of a gemm's epilogue; a
/// scatter kernel gets one number that is not 0 when it adds to its result.
llvm::SmallVector<LaunchImmediate> immediatesOf(rt::LaunchOp launch);
llvm::SmallVector<LaunchImmediate> immediatesOf(rt::GemmOp gemm);

/// Reads the body of a kernel; says on the op what no emitter could make.
llvm::FailureOr<KernelShape> readKernelShape(rt::KernelOp kernel);

} // namespace kiln

#endif // KILN_TARGET_COMMON_KERNELSHAPES_H
