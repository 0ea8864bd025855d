//===- KilnShapeOps.td - Reductions and shape ops ----------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNSHAPEOPS_TD
#define KILN_DIALECT_KILN_IR_KILNSHAPEOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"

// The kernel family of strided copies and reductions of inner dimensions. Its
// kernels read and write with any row pitch.
defvar PermuteKernel = [{
  ::llvm::StringRef getKernelFamily() { return "permute"; }
  bool readsPitched(unsigned) { return true; }
  bool writesPitched(unsigned) { return true; }
}];

defvar ShapeTraits = [Pure, PrecisionOpInterface,
  DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences", "isLinear"]>,
  DeclareOpInterfaceMethods<DifferentiableOpInterface>,
  DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>];

def Kiln_BroadcastOp : Kiln_Op<"broadcast", [Pure, PrecisionOpInterface,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences", "isLinear"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>, KernelOpInterface,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>]> {
  let summary = "broadcasts a tensor along new or size-1 dimensions";
  let description = [{
    Dimension i of `x` becomes dimension dims[i] of the result. Its size is that
    of the result dimension or 1 (C1). `dims` are increasing (C2).

    Example: `%y = kiln.broadcast %x dims [1] : tensor<4xf32> to tensor<8x4xf32>`
  }];
  let arguments = (ins Kiln_AnyTensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Kiln_AnyTensor:$y);
  let assemblyFormat = "$x `dims` $dims attr-dict `:` type($x) `to` type($y)";
  let hasVerifier = 1;
  let extraClassDeclaration = PermuteKernel;
}
def Kiln_ReduceOp : Kiln_Op<"reduce", [Pure, WideResultOpInterface,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences", "isLinear"]>,
    DeclareOpInterfaceMethods<PrecisionOpInterface, ["getPrecision"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>, KernelOpInterface,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding", "getLongestSum"]>]> {
  let summary = "sum, mean or maximum over dimensions";
  let description = [{
    Reduces over the dimensions `dims`, which are increasing (C1), and removes
    them. The sum of bf16 elements may be f32. The maximum is NaN if any element
    is NaN. The gradient of `max` is distributed equally over all elements that
    are equal to the maximum. `--kiln-set-numerics` replaces a sum over leading
    dimensions by `reduce_partial` and `reduce_combine`, which fix the order of
    summation.

    Example: `%y = kiln.reduce sum %x dims [0] : tensor<8x4xf32> to tensor<4xf32>`
  }];
  let arguments = (ins Kiln_ReductionAttr:$kind, Kiln_Tensor:$x, DenseI64ArrayAttr:$dims);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "custom<ReductionKind>($kind) $x `dims` $dims attr-dict `:` type($x) `to` type($y)";
  let hasVerifier = 1;
  let extraClassDeclaration = PermuteKernel;
}
def Kiln_ReducePartialOp : Kiln_Op<"reduce_partial", [Pure,
    DispatchableOpInterface,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum"]>]> {
  let summary = "column sums of chunks of rows";
  let description = [{
    `x` [.., C] has R rows. y[i, :] is the sum of the rows [i*chunk, (i+1)*chunk),
    added in row order. `y` has shape [ceil(R/chunk), C] (C1), and is f32 if `x`
    is bf16.

    Example: `%y = kiln.reduce_partial %x chunk 4 : tensor<10x4xf32> to tensor<3x4xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, I64Attr:$chunk);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "$x `chunk` $chunk attr-dict `:` type($x) `to` type($y)";
  let hasVerifier = 1;
}
def Kiln_ReduceCombineOp : Kiln_Op<"reduce_combine", [Pure,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getTiedOperand"]>,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum"]>]> {
  let summary = "sums the results of reduce_partial in order";
  let description = [{
    Computes y = ((x[0] + x[1]) + x[2]) + ... over the first dimension of `x`
    [n, C], and then accumulate + y if `accumulate` is present. `y` has any shape
    with C elements. If `x` is f32, `y` is f32, f16 or bf16.

    Example: `%y = kiln.reduce_combine %x : (tensor<3x4xf32>) -> tensor<4xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, Optional<Kiln_Tensor>:$accumulate);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "$x (`accumulate` $accumulate^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Kiln_CumsumOp : Kiln_Op<"cumsum", [Pure, SameOperandsAndResultType, DispatchableOpInterface,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences", "isLinear"]>,
    DeclareOpInterfaceMethods<PrecisionOpInterface, ["getPrecision"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["readsPitched", "writesPitched"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum"]>]> {
  let summary = "cumulative sums along the last dimension";
  let description = [{
    `x` has rank 2, [R, C] (C1). Computes y[r, c] = ((0 + x[r, 0]) + x[r, 1]) + ...
    + x[r, c]. With `reverse`, computes y[r, c] = ((0 + x[r, C-1]) + x[r, C-2]) +
    ... + x[r, c]. Sums of bf16 elements are computed in f32, and each one is
    rounded once when it is stored. The gradient is the cumulative sum of the
    cotangent in the opposite direction.

    Example: `%y = kiln.cumsum %x reverse : tensor<4x8xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, UnitAttr:$reverse);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "$x (`reverse` $reverse^)? attr-dict `:` type($x)";
  let hasVerifier = 1;
}
def Kiln_ReshapeOp : Kiln_Op<"reshape", [Pure, PrecisionOpInterface,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences", "isLinear"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>]> {
  let summary = "changes the shape of a tensor";
  let description = "The elements keep their row-major order. The number of elements does not change (C1).\n\nExample: `%y = kiln.reshape %x : tensor<2x6xf32> to tensor<3x4xf32>`";
  let arguments = (ins Kiln_AnyTensor:$x);
  let results = (outs Kiln_AnyTensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `to` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Kiln_TransposeOp : Kiln_Op<"transpose", ShapeTraits # [DispatchableOpInterface, KernelOpInterface]> {
  let summary = "permutes dimensions";
  let description = "Dimension i of the result is dimension permutation[i] of `x`. `permutation` names every dimension once (C1).\n\nExample: `%y = kiln.transpose %x [1, 0] : tensor<2x6xf32> to tensor<6x2xf32>`";
  let arguments = (ins Kiln_AnyTensor:$x, DenseI64ArrayAttr:$permutation);
  let results = (outs Kiln_AnyTensor:$y);
  let assemblyFormat = "$x $permutation attr-dict `:` type($x) `to` type($y)";
  let hasVerifier = 1;
  let extraClassDeclaration = PermuteKernel;
}
def Kiln_SliceOp : Kiln_Op<"slice", ShapeTraits # [DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>, KernelOpInterface]> {
  let summary = "extracts a slice of a tensor";
  let description = [{
    The result has the elements [offsets[i], offsets[i] + n) of every dimension i
    of `x`, where n is the size of dimension i of the result. These must be in
    bounds (C1).

    Example: `%y = kiln.slice %x [0, 2] : tensor<4x6xf32> to tensor<4x2xf32>`
  }];
  let arguments = (ins Kiln_AnyTensor:$x, DenseI64ArrayAttr:$offsets);
  let results = (outs Kiln_AnyTensor:$y);
  let assemblyFormat = "$x $offsets attr-dict `:` type($x) `to` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = PermuteKernel;
}
def Kiln_ConcatOp : Kiln_Op<"concat", [Pure, PrecisionOpInterface,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences", "isLinear"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>]> {
  let summary = "concatenates tensors along one dimension";
  let description = "The other dimensions of the operands are equal (C1).\n\nExample: `%y = kiln.concat %a, %b dim 1 : (tensor<4x2xf32>, tensor<4x3xf32>) -> tensor<4x5xf32>`";
  let arguments = (ins Variadic<Kiln_AnyTensor>:$inputs, I64Attr:$dim);
  let results = (outs Kiln_AnyTensor:$y);
  let assemblyFormat = "$inputs `dim` $dim attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
  let hasFolder = 1;
}
def Kiln_PadOp : Kiln_Op<"pad", ShapeTraits # [DispatchableOpInterface, KernelOpInterface]> {
  let summary = "pads a tensor with zeros";
  let description = "Pads dimension i with `low[i]` zeros at the beginning, and with zeros at the end up to the size of the result, "
    "which must be large enough (C1).\n\nExample: `%y = kiln.pad %x low [1, 0] : tensor<2x4xf32> to tensor<4x4xf32>`";
  let arguments = (ins Kiln_AnyTensor:$x, DenseI64ArrayAttr:$low);
  let results = (outs Kiln_AnyTensor:$y);
  let assemblyFormat = "$x `low` $low attr-dict `:` type($x) `to` type($y)";
  let hasVerifier = 1;
  let extraClassDeclaration = PermuteKernel;
}
def Kiln_SelectRowOp : Kiln_Op<"select_row", [Pure,
    DispatchableOpInterface,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>]> {
  let summary = "selects one row at run time";
  let description = "Computes y[0, :] = x[position, :]. The position must be a row index of `x`.\n\nExample: `%y = kiln.select_row %x, %position : (tensor<8x4xf32>, tensor<i64>) -> tensor<1x4xf32>`";
  let arguments = (ins Kiln_Tensor:$x, Kiln_IntScalar:$position);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
