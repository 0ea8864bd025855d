//===- KilnCompressionOps.td - Ops that encode residuals ---*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `--kiln-compress-residuals` creates these ops. The forward pass stores an
// encoding of a residual, and the backward pass reads the encoding instead of
// the residual.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNCOMPRESSIONOPS_TD
#define KILN_DIALECT_KILN_IR_KILNCOMPRESSIONOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"

class Kiln_CompressionOp<string mnemonic, list<Trait> traits = []>
    : Kiln_Op<mnemonic, [Pure, DispatchableOpInterface,
        DeclareOpInterfaceMethods<ReferenceOpInterface>] # traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Kiln_BucketEncodeOp : Kiln_CompressionOp<"bucket_encode", [DeclareOpInterfaceMethods<KernelOpInterface>]> {
  let summary = "encodes every element by the index of its bucket";
  let description = [{
    The code of an element is the number of `borders` below it: 0 for NaN and for
    elements up to and including the first border, and borders.size for elements
    above the last border. There are 2^b - 1 borders with b from 1 to 8 (C1). They
    are increasing, finite and exact in the type of the arithmetic, which is f32
    for bf16 elements (C2). Code i, in row-major order, is stored in the bits
    [b i, b i + b) of `codes`, least significant bit first. N elements need
    ceil(b N / 8) bytes (C3). Unused bits after the last code are zero.

    Example: `%c = kiln.bucket_encode %x {borders = array<f64: -1.0, 0.0, 1.0>} : (tensor<5x3xf32>) -> tensor<4xi8>`
  }];
  let arguments = (ins Kiln_Tensor:$x, DenseF64ArrayAttr:$borders);
  let results = (outs Kiln_Codes:$codes);
}

def Kiln_BucketDecodeOp : Kiln_CompressionOp<"bucket_decode",
    [AllTypesMatch<["dy", "dx"]>, DeclareOpInterfaceMethods<KernelOpInterface>]> {
  let summary = "scales dy by the level of every element's bucket";
  let description = [{
    Computes dx = levels[code] * dy for the codes of `bucket_encode`, and dx = 0
    if the level is 0. There are 2^b levels with b from 1 to 8 (C1), and
    ceil(b N / 8) bytes of codes (C2). Levels are first rounded to the type of the
    arithmetic.

    With the border 0 and the levels 0 and 1, the result is bitwise equal to the
    gradient of relu. With more buckets, it is a piecewise-constant approximation
    of a derivative (Novikov et al., "Few-bit backward", 2022).

    Example: `%dx = kiln.bucket_decode %c, %dy {levels = array<f64: 0.0, 0.25, 0.75, 1.0>} : (tensor<4xi8>, tensor<5x3xf32>) -> tensor<5x3xf32>`
  }];
  let arguments = (ins Kiln_Codes:$codes, Kiln_Tensor:$dy, DenseF64ArrayAttr:$levels);
  let results = (outs Kiln_Tensor:$dx);
}

def Kiln_SketchRowsOp : Kiln_CompressionOp<"sketch_rows",
    [LaunchArgumentsOpInterface, DeclareOpInterfaceMethods<KernelOpInterface, ["readsPitched"]>]> {
  let summary = "sketches rows by sums with random signs";
  let description = [{
    The rows of `x` belong to `sequences` sequences of T rows, and the rows of `y`
    to as many sequences of k rows with 1 <= k <= T (C1). Row r of a sequence of
    `y` is the sum of s(t) x[t] over t = r, r + k, r + 2k, ..., added in this
    order. Like the mask of dropout, the sign s(t) is a pure function of the seed
    and step in `rng`, `key`, the index of the sequence in the global batch, and
    t. It is negative if the highest of the 32 random bits for row t and column 0
    is set. `x` and `y` have rank 2 and equal numbers of columns (C2). `rng` is
    {seed, step, first sequence} (C3).

    In other words, y = S^T x for a random matrix S with one entry of 1 or -1 in
    every row (a count sketch). The expected value of S S^T is the identity, so
    that of (S^T x)^T (S^T z) for two sketches with one key is x^T z.

    Example: `%y = kiln.sketch_rows %x, %rng {key = 3, sequences = 2} : (tensor<8x16xf32>, tensor<1x3xi64>) -> tensor<4x16xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, Kiln_Rng:$rng, I64Attr:$key, I64Attr:$sequences);
  let results = (outs Kiln_Tensor:$y);
  let extraClassDeclaration = [{
    int64_t getLongestSum();
    ::llvm::SmallVector<::llvm::StringRef> getLaunchArgumentNames() { return {"key"}; }
  }];
}

#endif
