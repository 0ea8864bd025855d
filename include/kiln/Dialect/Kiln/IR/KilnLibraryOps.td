//===- KilnLibraryOps.td - what a gpu's library fuses ------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Several ops in one call of the library, which rounds once where they round
// one by one. So they are made with the numerics, behind autodiff, and no later
// pass makes or splits one. Other ops are in KilnOps.td.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNLIBRARYOPS_TD
#define KILN_DIALECT_KILN_IR_KILNLIBRARYOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"

def Kiln_LinearOp : Kiln_Op<"linear", [Pure,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily", "getFlops"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "matrix product and bias, rounded once";
  let description = [{
    y[i, j] = round(sum over l of op(a)[i, l] op(b)[l, j] + bias[j]). Sum and bias
    are added in f32, and the result is rounded once, to the type of y, where
    `kiln.matmul` and `kiln.add` would round twice. Operands have rank 2 (C1); op
    transposes where `trans_a` / `trans_b` is set. Elements of a and b are bf16 or
    f32 (C2); bias has the type of y (C3): cuBLASLt's epilogue BIAS. `grid` is that
    of `kiln.matmul`. Made by `--kiln-set-numerics`, for gpus alone.

    Example: `%y = kiln.linear %x, %w, %b trans_b : (tensor<8x16xf32>, tensor<4x16xf32>, tensor<4xf32>) -> tensor<8x4xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$a, Kiln_Tensor:$b, Kiln_Tensor:$bias,
    UnitAttr:$trans_a, UnitAttr:$trans_b, OptionalAttr<DenseI64ArrayAttr>:$grid);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = [{
    $a `,` $b `,` $bias (`trans_a` $trans_a^)? (`trans_b` $trans_b^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Rows, columns and inner extent of the product.
    int64_t getM(); int64_t getN(); int64_t getK();
    int64_t getBatch() { return 1; }
  }];
}

#endif // KILN_DIALECT_KILN_IR_KILNLIBRARYOPS_TD
