//===- KernelShapes.h - Parameters of specialized kernels -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parameters of kernels, with one struct per kernel family. The emitters of
// several backends use these structs. An emitter can also read the op itself
// (see SingleOp). The arguments of a kernel are its operands, then its results.
// Shapes are compile-time constants of a kernel. Values that differ between
// layers, such as RNG keys and scales, are immediates.
//
// The element types in these structs are the types of elements in memory.
// Arithmetic uses fullPrecision() of the element type, and every result is
// rounded once.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_KERNELSHAPES_H
#define KILN_TARGET_COMMON_KERNELSHAPES_H

#include "kiln/Dialect/Kiln/IR/RowProgram.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include <optional>

namespace kiln {

/// The layout of a rank-2 operand or result: element (r, c) is stored at r *
/// rowStride + c. Dense tensors have rowStride == columns.
struct Layout {
  int64_t rowStride = 0;
};

/// The parameters of a row program. imm: the immediates of the program. If the
/// kernel is an epilogue, two more immediates precede these: the first column
/// and the end column of the tile.
struct RowShape {
  row::RowProgram program;
  /// Layouts of the operands, then of the results. Only stores of the kind
  /// Full, and loads with Identity or RowElement access, use the layouts.
  /// Tables with Gathered or Modulo access have contiguous rows. The program,
  /// not the shapes of the tensors, defines the number of columns.
  llvm::SmallVector<Layout> layouts;
  /// True if the kernel is the epilogue of a GEMM and works on one tile.
  bool epilogue = false;

  /// Returns true if all tensors that are accessed element by element have
  /// contiguous rows.
  bool isDense() const;
};

/// args: q, k, v, [rng if takesRng], o, lse. imm: RNG key, bits of the f64
/// scale. The type of lse is fullPrecision(elementType).
struct AttentionShape {
  int64_t sequences = 0, length = 0, heads = 0, kvHeads = 0, headDim = 0;
  bool causal = false;
  double dropout = 0; ///< Probability; if 0, no dropout code is emitted.
  /// True if rng is an argument; required if dropout > 0.
  bool takesRng = false;
  /// True if each rank computes only a part of the heads. rng then has a fourth
  /// number, the index of this rank.
  bool dividesHeads = false;
  /// Keys per tile. Determines the order of summation and thus the rounding.
  int64_t kvTile = 64;
  mlir::Type elementType;
  /// Row strides in elements of q, k, v and o (dense: heads * headDim for q and
  /// o, kvHeads * headDim for k and v).
  int64_t qStride = 0, kStride = 0, vStride = 0, oStride = 0;
};

/// args: q, k, v, o, lse, dout, [rng], dq, dk, dv. imm: as for AttentionShape.
struct AttentionGradShape : AttentionShape {
  int64_t doutStride = 0, dqStride = 0, dkStride = 0, dvStride = 0;
};

/// args: x, cos, sin, y. x and y may be the same memory. `period` is the number
/// of rows per sequence. The type of cos and sin is fullPrecision(elementType).
struct RopeShape {
  int64_t rows = 0, heads = 0, headDim = 0, period = 0;
  bool inverse = false;
  mlir::Type elementType;
  int64_t xStride = 0, yStride = 0;
};

/// args: tokens (i32), dy [tokens, cols], table gradient [vocabulary, cols]. If
/// imm[0] is 0, the kernel overwrites the table gradient; otherwise the kernel
/// adds to the contents of the table gradient, which then has full precision.
/// Tokens equal to `paddingIndex` contribute nothing.
struct ScatterShape {
  int64_t tokens = 0, vocabulary = 0, cols = 0;
  std::optional<int64_t> paddingIndex;
  mlir::Type elementType; ///< Type of the table gradient.
  mlir::Type dyType;
  int64_t dyStride = 0;
};

/// A strided copy or reduction over up to 6 dimensions: for every index i of
/// `shape`, dst[dstOffset + sum_d i[d] * dstStrides[d]] = src[srcOffset + sum_d
/// i[d] * srcStrides[d]]. A source stride of 0 broadcasts. If `reduceShape` is
/// not empty, each element is the sum or maximum over these additional source
/// dimensions (with srcReduceStrides), in index order. If `zeroRows` > 0, which
/// is used for padding, the kernel first fills the first `zeroColumns` elements
/// of `zeroRows` rows of dst with zeros; `zeroStride` is the row stride. args:
/// src, dst. Offsets and strides are in elements.
struct PermuteShape {
  llvm::SmallVector<int64_t, 4> shape, srcStrides, dstStrides;
  llvm::SmallVector<int64_t, 4> reduceShape, srcReduceStrides;
  bool reduceMax = false;
  int64_t srcOffset = 0, dstOffset = 0;
  int64_t zeroRows = 0, zeroColumns = 0, zeroStride = 0;
  mlir::Type elementType; ///< Type of dst.
  /// Type of src: elementType, or bf16 for a sum that is stored as f32.
  mlir::Type sourceType;
};

/// The common parameters of kiln.bucket_encode, which encodes elements as codes
/// of a few bits, and of kiln.bucket_decode.
struct BucketShape {
  int64_t elements = 0;
  mlir::Type elementType;
  llvm::ArrayRef<double> table; ///< Borders (encode) or levels (decode).
};
/// args: x, codes.
struct BucketEncodeShape : BucketShape {};
/// args: codes, dy, dx. dy and dx may be the same memory.
struct BucketDecodeShape : BucketShape {};

/// The parameters of kiln.sketch_rows, which sums rows with random signs. args:
/// x, rng, y. imm: RNG key.
struct SketchShape {
  int64_t sequences = 0, length = 0, kept = 0, columns = 0;
  mlir::Type elementType;
  int64_t xStride = 0;
};

/// A kernel whose body is a single op. strideOf and strideOfResult return row
/// pitches in elements.
struct SingleOp {
  rt::KernelOp kernel;
  mlir::Operation *op;

  explicit SingleOp(rt::KernelOp kernel)
      : kernel(kernel), op(&kernel.getBody().front().front()) {}

  template <typename Op> Op as() const { return llvm::cast<Op>(op); }
  int64_t strideOf(mlir::Value operand);
  int64_t strideOfResult(unsigned index);
};

/// Returns the indices of the operands and results in the order of the kernel's
/// arguments. Row programs use the order of the block arguments. A single op
/// uses the order of its operands. An operand to which the op accumulates in
/// place is omitted, because it is the same argument as the result.
llvm::SmallVector<unsigned> argumentOrder(rt::KernelOp kernel);

/// An integer argument of a kernel, or the bits of a floating-point argument. A
/// launch in the forward or backward pass of micro-batches is executed once per
/// micro-batch: in the first execution, the argument is `value`; in all later
/// executions, it is `value` + `afterFirst`.
struct LaunchImmediate {
  int64_t value = 0, afterFirst = 0;
};

/// Returns the immediates of a launch or of the epilogue of a GEMM. A kernel
/// that accumulates in place has an additional last immediate, which is nonzero
/// if the launch adds to the result.
llvm::SmallVector<LaunchImmediate> immediatesOf(rt::LaunchOp launch);
llvm::SmallVector<LaunchImmediate> immediatesOf(rt::GemmOp gemm);

/// Builds the row program of a kernel. On failure, reports an error on
/// `kernel`.
llvm::FailureOr<RowShape> readRows(rt::KernelOp kernel);

AttentionShape readAttention(SingleOp k);
AttentionGradShape readAttentionGrad(SingleOp k);
RopeShape readRope(SingleOp k);
ScatterShape readScatter(SingleOp k);
PermuteShape readPermute(SingleOp k);
BucketEncodeShape readBucketEncode(SingleOp k);
BucketDecodeShape readBucketDecode(SingleOp k);
SketchShape readSketch(SingleOp k);

} // namespace kiln

#endif // KILN_TARGET_COMMON_KERNELSHAPES_H
