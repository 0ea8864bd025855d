//===- KilnVendorOps.td - GEMMs of a vendor library --------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Each op of this file computes a GEMM and an epilogue in one call of a GPU's
// vendor library. The library rounds the result once, whereas separate ops
// round the result of each op. No pass after --kiln-set-numerics may change the
// rounding. Therefore --kiln-set-numerics, which runs after autodiff, forms
// these ops, and no later pass forms or splits them. KilnOps.td includes the
// files of all ops except this file.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNVENDOROPS_TD
#define KILN_DIALECT_KILN_IR_KILNVENDOROPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"

class Kiln_VendorGemmOp<string mnemonic> : Kiln_Op<mnemonic, [Pure,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily", "getFlops"]>,
    DeclareOpInterfaceMethods<GemmOpInterface,
      ["getVendorEpilogue", "getBiasRow", "getAux"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let hasVerifier = 1;
}

def Kiln_LinearOp : Kiln_VendorGemmOp<"linear"> {
  let summary = "matrix multiplication with bias, rounded once";
  let description = [{
    Computes y[i, j] = round(sum over l of op(a)[i, l] op(b)[l, j] + bias[j]) with
    the cuBLASLt epilogue BIAS. The sum and the bias are added in f32, and the
    result is rounded once to the type of `y`, where `kiln.matmul` and `kiln.add`
    would round twice. `a` and `b` have rank 2 (C1); op transposes if `trans_a` or
    `trans_b` is set. `a` and `b` have elements of bf16, f16 or f32 (C2), and `bias` has
    the element type of `y` (C3). `grid` is that of `kiln.matmul`.
    `--kiln-set-numerics` forms the op, for GPUs only.

    Example: `%y = kiln.linear %x, %w, %b trans_b : (tensor<8x16xf32>, tensor<4x16xf32>, tensor<4xf32>) -> tensor<8x4xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$a, Kiln_Tensor:$b, Kiln_Tensor:$bias,
    UnitAttr:$trans_a, UnitAttr:$trans_b, OptionalAttr<DenseI64ArrayAttr>:$grid);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = [{
    $a `,` $b `,` $bias (`trans_a` $trans_a^)? (`trans_b` $trans_b^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Kiln_LinearGeluOp : Kiln_VendorGemmOp<"linear_gelu"> {
  let summary = "gelu of a matrix multiplication with bias";
  let description = [{
    Computes u[i, j] = sum over l of op(a)[i, l] op(b)[l, j] + bias[j] in f32, and
    y = round(gelu(u)), the tanh form of gelu of the unrounded u. The optional
    result `u` is u rounded to the type of `y`, for the backward pass. The cuBLASLt
    epilogues are GELU_BIAS, and GELU_AUX_BIAS with the result `u`. `a` and `b`
    have rank 2 (C1) and elements of bf16, f16 or f32, which is also the element type of
    `y` (C2). `bias` has the element type of `y` (C3). If `u` is present, the row
    length is a multiple of 8 (C4). Transposition and `grid` are those of
    `kiln.linear`.

    Example: `%y, %u = kiln.linear_gelu %x, %w, %b : (tensor<8x4xf32>, tensor<4x16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8x16xf32>)`
  }];
  let arguments = (ins Kiln_Tensor:$a, Kiln_Tensor:$b, Kiln_Tensor:$bias,
    UnitAttr:$trans_a, UnitAttr:$trans_b, OptionalAttr<DenseI64ArrayAttr>:$grid);
  let results = (outs Kiln_Tensor:$y, Optional<Kiln_Tensor>:$u);
  let assemblyFormat = [{
    $a `,` $b `,` $bias (`trans_a` $trans_a^)? (`trans_b` $trans_b^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Kiln_MatmulGeluGradOp : Kiln_VendorGemmOp<"matmul_gelu_grad"> {
  let summary = "gradient of gelu for a cotangent that is a matrix multiplication";
  let description = [{
    Computes du[i, j] = round(gelu'(u[i, j]) * sum over l of op(a)[i, l] op(b)[l,
    j]) for the tanh form of gelu, rounded once, with the cuBLASLt epilogue DGELU.
    `a` and `b` have rank 2 (C1) and elements of bf16, f16 or f32, which is also the
    element type of `du` (C2). `u` has the type of `du` (C3), and its row length is
    a multiple of 8 (C4). Transposition and `grid` are those of `kiln.linear`.

    Example: `%du = kiln.matmul_gelu_grad %dy, %w, %u trans_b : (tensor<8x4xf32>, tensor<16x4xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$a, Kiln_Tensor:$b, Kiln_Tensor:$u,
    UnitAttr:$trans_a, UnitAttr:$trans_b, OptionalAttr<DenseI64ArrayAttr>:$grid);
  let results = (outs Kiln_Tensor:$du);
  let assemblyFormat = [{
    $a `,` $b `,` $u (`trans_a` $trans_a^)? (`trans_b` $trans_b^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

def Kiln_MatmulBiasGradOp : Kiln_VendorGemmOp<"matmul_bias_grad"> {
  let summary = "matrix multiplication and sums of one operand: the gradients of a linear layer";
  let description = [{
    Computes c = round(op(a) op(b)) and db[j] = round(sum over l of op(b)[l, j]),
    or, with `of_a`, db[i] = round(sum over l of op(a)[i, l]). All sums are in f32.
    The cuBLASLt epilogues are BGRADA and BGRADB, with the operands swapped because
    cuBLASLt matrices are column-major. `a` and `b` have rank 2 (C1) and elements
    of bf16, f16 or f32 (C2), and `db` has the element type of `c` (C3). Transposition
    and `grid` are those of `kiln.linear`.

    Example: `%dw, %db = kiln.matmul_bias_grad %x, %dy trans_a : (tensor<8x4xf32>, tensor<8x16xf32>) -> (tensor<4x16xf32>, tensor<16xf32>)`
  }];
  let arguments = (ins Kiln_Tensor:$a, Kiln_Tensor:$b, UnitAttr:$trans_a,
    UnitAttr:$trans_b, UnitAttr:$of_a, OptionalAttr<DenseI64ArrayAttr>:$grid);
  let results = (outs Kiln_Tensor:$c, Kiln_Tensor:$db);
  let assemblyFormat = [{
    $a `,` $b (`trans_a` $trans_a^)? (`trans_b` $trans_b^)? (`of_a` $of_a^)?
    attr-dict `:` functional-type(operands, results)
  }];
}

#endif // KILN_DIALECT_KILN_IR_KILNVENDOROPS_TD
