//===- KilnQuantizationOps.td - Ops on quantized weights ---*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNQUANTIZATIONOPS_TD
#define KILN_DIALECT_KILN_IR_KILNQUANTIZATIONOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"

def Kiln_DequantizeOp : Kiln_Op<"dequantize", [Pure, DispatchableOpInterface,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>,
    DeclareOpInterfaceMethods<KernelOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "decodes a quantized weight";
  let description = [{
    `codes` are the bytes of a weight in the encoding `encoding`, in the layout of
    kiln/Support/Nf4.h or kiln/Support/Int8.h (C1). `y` has the shape of the weight
    (C4), and its elements are f32 or narrower (C3).

    `nf4` needs a `table` with the 256 values of scale codes, followed by the 16 values
    of codes; `int8` has no table (C2):

    nf4:  y[i] = round(table[256 + code(i)] * (table[scale code] * nested scale + offset))
    int8: y[i] = round(scale * code(i)), and round(stored value) if i is in an outlier

    Each operation is rounded to f32, and the result once more to the type of `y`.
    `--kiln-quantize-weights` creates the op. A gradient decodes the weight again, so
    that no decoded weight is kept from the forward to the backward pass.

    Example: `%w = kiln.dequantize %c, %t {encoding = #kiln.quantized<nf4, tensor<8x8xf32>>} : (tensor<44xi8>, tensor<272xf32>) -> tensor<8x8xbf16>`
  }];
  let arguments = (ins Kiln_QuantizedAttr:$encoding, Kiln_Codes:$codes, Optional<Kiln_Tensor>:$table);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "$codes (`,` $table^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif // KILN_DIALECT_KILN_IR_KILNQUANTIZATIONOPS_TD
