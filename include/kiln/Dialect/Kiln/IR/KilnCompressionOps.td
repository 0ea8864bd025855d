//===- KilnCompressionOps.td - Ops that encode residuals ---*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// `--kiln-compress-residuals` and `--kiln-quantize-residuals` create these ops.
// The forward pass stores an encoding of a residual, and the backward pass reads
// the encoding instead of the residual. `--kiln-compress-gradients` uses the
// ops of class Kiln_BlockOp for gradients that ranks sum.
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

// Ops on blocks of elements are row ops, so that elementwise ops before and
// after them are fused into the same kernels. Each block is one row of the row
// space.
class Kiln_BlockOp<string mnemonic>
    : Kiln_CompressionOp<mnemonic, [DeclareOpInterfaceMethods<RowOpInterface>]>;

def Kiln_BlockScalesOp : Kiln_BlockOp<"block_scales"> {
  let summary = "scales of blocks of elements";
  let description = [{
    The elements of `x`, in row-major order, are cut into as many blocks of equal
    length as `scales` has elements (C1). The scale of a block is max(m / c, t) for
    the largest magnitude m in the block, the largest code c = 2^(bits - 1) - 1,
    and the smallest normal number t of the type of `scales`: f64 for f64 elements,
    otherwise f32 (C2). It is infinite if the block has an element that is infinite
    or NaN. `bits` is 8 or 4 (C3).

    Example: `%s = kiln.block_scales %x {bits = 8} : (tensor<4x16xf32>) -> tensor<2xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, I64Attr:$bits);
  let results = (outs Kiln_Tensor:$scales);
}

def Kiln_BlockEncodeOp : Kiln_BlockOp<"block_encode"> {
  let summary = "encodes blocks of elements with one scale each";
  let description = [{
    `inputs` is one tensor and its scales, or two tensors of one type, followed by
    the scales of the first and of the second one, both of one type (C1); see
    `block_scales` (C2). The code of an element x is x * (1 / scale), rounded to the
    nearest integer, ties to even, and clamped to [-c, c]; NaN has the code c. There
    is a byte for each element of the first tensor (C3). The byte of an 8-bit code
    is the code. The byte of two 4-bit codes is a + 16 b for the code a of the first
    and b of the second tensor.

    Example: `%c = kiln.block_encode %x, %s : (tensor<4x16xf32>, tensor<2xf32>) -> tensor<64xi8>`
  }];
  let arguments = (ins Variadic<Kiln_Tensor>:$inputs);
  let results = (outs Kiln_Codes:$codes);
  let extraClassDeclaration = [{
    /// Returns the number of encoded tensors, 1 or 2.
    unsigned getNumParts() { return getInputs().size() / 2; }
    ::mlir::Value getPart(unsigned i) { return getInputs()[i]; }
    ::mlir::Value getScales(unsigned i) { return getInputs()[getNumParts() + i]; }
  }];
}

def Kiln_BlockDecodeOp : Kiln_BlockOp<"block_decode"> {
  let summary = "decodes blocks of elements with one scale each";
  let description = [{
    Computes y = scale * code for the codes of `block_encode`. `y` has as many
    elements as `codes`, or twice as many (C1): its halves in row-major order are
    then the two encoded tensors. `scales` are those of the first tensor followed by
    those of the second one (C2).

    Example: `%y = kiln.block_decode %c, %s : (tensor<64xi8>, tensor<4xf32>) -> tensor<8x16xf32>`
  }];
  let arguments = (ins Kiln_Codes:$codes, Kiln_Tensor:$scales);
  let results = (outs Kiln_Tensor:$y);
  let extraClassDeclaration = [{
    /// Returns the number of encoded tensors, 1 or 2.
    int64_t getNumParts() {
      return getY().getType().getNumElements() / getCodes().getType().getNumElements();
    }
  }];
}

def Kiln_DitherOp : Kiln_CompressionOp<"dither",
    [LaunchArgumentsOpInterface, DeclareOpInterfaceMethods<RowOpInterface>, AllTypesMatch<["x", "y"]>]> {
  let summary = "adds uniform noise, so that rounding to codes is unbiased";
  let description = [{
    The elements of `x` are cut into blocks, as by `block_scales`, with one scale each
    (C1). Computes y = x + scale * u, where u is uniform in [-1/2, 1/2]: the 32 random
    bits as a signed integer, divided by 2^32. The expected value of `block_encode` of
    `y`, times the scale, is therefore that of `x` (stochastic rounding).

    Like the mask of dropout, u is a pure function of the seed, the step and the first
    sequence in `rng` (C2), of `key`, the index of the block and the index of the
    element in the block. Ranks with other sequences have other noise.

    Example: `%y = kiln.dither %x, %s, %rng {key = 3} : (tensor<4x16xf32>, tensor<2xf32>, tensor<1x3xi64>) -> tensor<4x16xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, Kiln_Tensor:$scales, Kiln_Rng:$rng, I64Attr:$key);
  let results = (outs Kiln_Tensor:$y);
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::llvm::StringRef> getLaunchArgumentNames() { return {"key"}; }
  }];
}

#endif
