//===- KilnVendorOps.td - GEMMs of a vendor library --------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GEMM and its epilogue in one call of a GPU's vendor library, which rounds
// once where separate ops round one by one. Therefore these ops are formed with
// the numerics, after autodiff, and no later pass forms or splits one. Other ops
// are in KilnOps.td.
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
}

def Kiln_LinearGeluOp : Kiln_VendorGemmOp<"linear_gelu"> {
  let summary = "gelu of a matrix product and bias";
  let description = [{
    u[i, j] = sum over l of op(a)[i, l] op(b)[l, j] + bias[j] in f32, and
    y = round(gelu(u)), of the tanh form, of a u that is not rounded. With two
    results u is one, rounded to the type of y, for the backward pass: cuBLASLt's
    epilogues GELU_BIAS and GELU_AUX_BIAS. Operands have rank 2 (C1); elements of a
    and b are bf16 or f32, and y has their type (C2); bias has the type of y (C3); a
    second result needs rows of a multiple of 8 elements (C4). Otherwise like
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
  let summary = "gradient of gelu, of a cotangent that is a matrix product";
  let description = [{
    du[i, j] = round(gelu'(u[i, j]) * sum over l of op(a)[i, l] op(b)[l, j]), of
    gelu's tanh form, rounded once: cuBLASLt's epilogue DGELU. Operands have rank 2
    (C1); elements of a and b are bf16 or f32, and du has their type (C2); u has the
    type of du (C3), and its rows a multiple of 8 elements (C4). Otherwise like
    `kiln.linear`.

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
  let summary = "matrix product and the sums of one operand: gradients of a linear layer";
  let description = [{
    c = round(op(a) op(b)), and db[j] = round(sum over l of op(b)[l, j]), or with
    `of_a` db[i] = round(sum over l of op(a)[i, l]). Both are summed in f32:
    cuBLASLt's epilogues BGRADA and BGRADB, for which a and b change their places.
    Operands have rank 2 (C1); elements of a and b are bf16 or f32 (C2); db has the
    type of c (C3). Otherwise like `kiln.linear`.

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
