//===- KilnCompressionOps.td - small encodings of residuals -*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What `--kiln-compress-residuals` makes: the forward pass leaves an encoding,
// the backward pass reads that instead of the value.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNCOMPRESSIONOPS_TD
#define KILN_DIALECT_KILN_IR_KILNCOMPRESSIONOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"

class Kiln_CompressionOp<string mnemonic, list<Trait> traits = []>
    : Kiln_Op<mnemonic, [Pure,
        DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>,
        DeclareOpInterfaceMethods<ReferenceOpInterface>] # traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Kiln_BucketEncodeOp : Kiln_CompressionOp<"bucket_encode"> {
  let summary = "the bucket of every element, in a few bits";
  let description = [{
    The code of an element is the number of `borders` below it: 0 up to and
    including the first border (and for NaN), borders.size above the last. There
    are 2^b - 1 borders, b from 1 to 8 (C1); they increase and are numbers of
    the type of the arithmetic, f32 for bf16 (C2). Code i, in row-major order, is bits [b i, b i + b) of
    `codes`, the lowest bit of a byte first: ceil(b N / 8) bytes for N elements
    (C3). Bits behind the last code are zero.

    Example: `%c = kiln.bucket_encode %x {borders = array<f64: -1.0, 0.0, 1.0>} : (tensor<5x3xf32>) -> tensor<4xi8>`
  }];
  let arguments = (ins Kiln_Tensor:$x, DenseF64ArrayAttr:$borders);
  let results = (outs Kiln_Codes:$codes);
}

def Kiln_BucketDecodeOp : Kiln_CompressionOp<"bucket_decode", [AllTypesMatch<["dy", "dx"]>]> {
  let summary = "dy times the level of every element's bucket";
  let description = [{
    dx = levels[code] * dy for the codes that `bucket_encode` leaves, and 0 where
    the level is 0. There are 2^b levels, b from 1 to 8 (C1), and ceil(b N / 8)
    bytes of codes (C2). Levels are rounded to the type of the arithmetic first.

    With the border 0 and the levels 0 and 1 it is the gradient of relu, bit for
    bit. With more buckets it is a piecewise-constant derivative (Novikov et al.,
    "Few-bit backward", 2022).

    Example: `%dx = kiln.bucket_decode %c, %dy {levels = array<f64: 0.0, 0.25, 0.75, 1.0>} : (tensor<4xi8>, tensor<5x3xf32>) -> tensor<5x3xf32>`
  }];
  let arguments = (ins Kiln_Codes:$codes, Kiln_Tensor:$dy, DenseF64ArrayAttr:$levels);
  let results = (outs Kiln_Tensor:$dx);
}

def Kiln_SketchRowsOp : Kiln_CompressionOp<"sketch_rows", [LaunchArgumentsOpInterface]> {
  let summary = "random sums of rows, as many as shall be kept";
  let description = [{
    The rows of `x` belong to `sequences` sequences of T rows, those of `y` to as
    many of k rows, 1 <= k <= T (C1): row r of a sequence of `y` is the sum over t =
    r, r + k, ... of s(t) x[t], in this order. The sign s(t) is a pure function of
    what dropout's mask is: (`rng` seed, `key`, `rng` step, index of the sequence in
    the global batch, t); it is minus where the highest of the 32 bits for column 0
    of row t is set. `x` and `y` have rank 2 and equal columns (C2), `rng` is {seed,
    step, first sequence} (C3).

    In other words y = S^T x with a random matrix S that has one sign in every row
    (a count sketch), so that S S^T is the identity on average, and the product
    (S^T x)^T (S^T z) of two sketches with one key is x^T z on average.

    Example: `%y = kiln.sketch_rows %x, %rng {key = 3, sequences = 2} : (tensor<8x16xf32>, tensor<1x3xi64>) -> tensor<4x16xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, Kiln_Rng:$rng, I64Attr:$key, I64Attr:$sequences);
  let results = (outs Kiln_Tensor:$y);
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::llvm::StringRef> getLaunchArgumentNames() { return {"key"}; }
  }];
}

#endif
