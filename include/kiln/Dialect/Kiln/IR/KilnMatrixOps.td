//===- KilnMatrixOps.td - Matmul and attention ops ---------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNMATRIXOPS_TD
#define KILN_DIALECT_KILN_IR_KILNMATRIXOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"

def Kiln_MatmulOp : Kiln_Op<"matmul", [Pure, WideResultOpInterface,
    DeclareOpInterfaceMethods<GemmOpInterface, ["getGemmKernel"]>,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>,
    DeclareOpInterfaceMethods<PrecisionOpInterface, ["getPrecision"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily", "getFlops", "getTiedOperand"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum"]>]> {
  let summary = "matrix multiplication";
  let description = [{
    Computes y = op(a) op(b), plus `accumulate` if present. `a` and `b` have rank
    2, or the same higher rank with equal leading (batch) dimensions (C1). op
    transposes the last two dimensions if `trans_a` or `trans_b` is set. `grid`
    gives the numbers of tiles over the rows and columns of the result. On a CPU,
    `kernel` names what computes the tiles: `blas`, the default, `avx512` for
    elements of f32, f16 or bf16, or `amx` for elements of bf16 (C2; see
    kiln/Abi/GemmKernel.h). `--kiln-set-numerics` sets both.

    Example: `%y = kiln.matmul %x, %w trans_b : (tensor<8x16xf32>, tensor<4x16xf32>) -> tensor<8x4xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$a, Kiln_Tensor:$b, Optional<Kiln_Tensor>:$accumulate,
    UnitAttr:$trans_a, UnitAttr:$trans_b, OptionalAttr<DenseI64ArrayAttr>:$grid,
    OptionalAttr<StrAttr>:$kernel);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = [{
    $a `,` $b (`accumulate` $accumulate^)? (`trans_a` $trans_a^)? (`trans_b` $trans_b^)?
    attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$a, "::mlir::Value":$b, "bool":$transA, "bool":$transB)>];
}

def Kiln_AttentionOp : Kiln_Op<"attention", [Pure, LaunchArgumentsOpInterface,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>,
    DeclareOpInterfaceMethods<PrecisionOpInterface, ["getPrecision", "keepsFullResult"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFlops"]>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["readsPitched", "writesPitched", "isHeavy"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum", "addInnerNoise"]>]> {
  let summary = "scaled dot-product attention with optional grouped queries, causal mask and dropout";
  let description = [{
    `q` has shape [sequences*T, heads*d]; `k` and `v` have shape
    [sequences*T, kv_heads*d]. `kv_heads` divides `heads` (C1), and query head h
    uses key head h / (heads / kv_heads). For each sequence and head, computes
    P = softmax(scale * q k^T) and o = P v. With `causal`, P is masked above the
    diagonal. With `p` > 0, dropout is applied to P; in its mask, element (i, j)
    of head h has row h*T + i and column j. If `rng` has a fourth column with the
    index of this rank, the heads are those of this rank, and the first of them is
    head rank*heads of the mask. `lse` [sequences*heads, T] is
    log(sum(exp(scale * q k^T))) per query, and is f32 if `q` is bf16. The
    backward pass needs only q, k, v, o and lse. `kv_tile` fixes the order of
    summation over keys.

    Example: `%o, %lse = kiln.attention %q, %k, %v causal {sequences = 2, heads = 2, kv_heads = 1, scale = 5.0e-01} : (tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>) -> (tensor<8x8xf32>, tensor<4x4xf32>)`
  }];
  let arguments = (ins Kiln_Tensor:$q, Kiln_Tensor:$k, Kiln_Tensor:$v, Optional<Kiln_Rng>:$rng,
    I64Attr:$sequences, I64Attr:$heads, I64Attr:$kv_heads, F64Attr:$scale, UnitAttr:$causal,
    DefaultValuedAttr<F64Attr, "0.0">:$p, DefaultValuedAttr<I64Attr, "0">:$key, OptionalAttr<I64Attr>:$kv_tile);
  let results = (outs Kiln_Tensor:$o, Kiln_Tensor:$lse);
  let assemblyFormat = [{
    $q `,` $k `,` $v (`rng` $rng^)? (`causal` $causal^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::llvm::StringRef> getLaunchArgumentNames() { return {"key", "scale"}; }
    int64_t getSequenceLength() { return getQ().getType().getDimSize(0) / getSequences(); }
    int64_t getHeadDim() { return getQ().getType().getDimSize(1) / getHeads(); }
  }];
}
def Kiln_AttentionGradOp : Kiln_Op<"attention_grad", [Pure, LaunchArgumentsOpInterface,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFlops"]>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["readsPitched", "writesPitched", "isHeavy"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum"]>]> {
  let summary = "gradients of attention";
  let description = [{
    Recomputes P from q, k and lse, and then computes dv = P^T do, dP = do v^T,
    D = rowsum(do * o), dS = P * (dP - D), dq = scale * dS k and
    dk = scale * dS^T q.

    Example: `%dq, %dk, %dv = kiln.attention_grad %q, %k, %v, %o, %lse, %do causal {sequences = 2, heads = 2, kv_heads = 1, scale = 5.0e-01} : (tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>, tensor<8x8xf32>, tensor<4x4xf32>, tensor<8x8xf32>) -> (tensor<8x8xf32>, tensor<8x4xf32>, tensor<8x4xf32>)`
  }];
  let arguments = (ins Kiln_Tensor:$q, Kiln_Tensor:$k, Kiln_Tensor:$v, Kiln_Tensor:$o, Kiln_Tensor:$lse, Kiln_Tensor:$dout, Optional<Kiln_Rng>:$rng,
    I64Attr:$sequences, I64Attr:$heads, I64Attr:$kv_heads, F64Attr:$scale, UnitAttr:$causal,
    DefaultValuedAttr<F64Attr, "0.0">:$p, DefaultValuedAttr<I64Attr, "0">:$key, OptionalAttr<I64Attr>:$kv_tile);
  let results = (outs Kiln_Tensor:$dq, Kiln_Tensor:$dk, Kiln_Tensor:$dv);
  let assemblyFormat = [{
    $q `,` $k `,` $v `,` $o `,` $lse `,` $dout (`rng` $rng^)? (`causal` $causal^)? attr-dict `:` functional-type(operands, results)
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::llvm::StringRef> getLaunchArgumentNames() { return {"key", "scale"}; }
  }];
}

def Kiln_LinearCrossEntropyOp : Kiln_Op<"linear_cross_entropy", [Pure,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>,
    DeclareOpInterfaceMethods<PrecisionOpInterface, ["getPrecision"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "fused linear head and cross entropy";
  let description = [{
    Computes the scaled sum of the cross entropies of the logits hidden weight^T
    and the targets. `hidden` has shape [N, C], `weight` has shape [V, C], and
    `targets` has N elements in any shape (C1). Rows with target -100 are ignored.
    `--kiln-expand-loss` splits the op into chunks of `rows` rows, so that memory
    never holds all logits at once.

    With `rank`, the index of this rank on the axis "tp" of the mesh, `weight` is the
    shard of this rank of a matrix of `classes` rows, whose other rows are padding
    (C2). All ranks get the loss of all classes.

    Example: `%loss = kiln.linear_cross_entropy %h, %w, %targets, %scale : (tensor<8x4xf32>, tensor<16x4xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>`
  }];
  let arguments = (ins Kiln_Tensor:$hidden, Kiln_Tensor:$weight, Kiln_IndexTensor:$targets, Kiln_RealScalar:$scale, Optional<Kiln_RankScalar>:$rank, OptionalAttr<I64Attr>:$rows, OptionalAttr<I64Attr>:$classes);
  let results = (outs Kiln_RealScalar:$loss);
  let assemblyFormat = "$hidden `,` $weight `,` $targets `,` $scale (`rank` $rank^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}
def Kiln_LinearCrossEntropyGradOp : Kiln_Op<"linear_cross_entropy_with_grad", [Pure, AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<WideResultOpInterface, ["getWideResult"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "linear_cross_entropy and its gradients";
  let description = [{
    Computes the loss of `linear_cross_entropy` and the gradients of `hidden` and
    `weight` for a cotangent of one, or for `cotangent`. `dweight` may be f32 if the
    weight is narrower. With `rank`, `dhidden` is the contribution of the classes of
    this rank: the sum over all ranks is the gradient of `hidden`.

    Example: `%loss, %dh, %dw = kiln.linear_cross_entropy_with_grad %h, %w, %targets, %scale : (tensor<8x4xf32>, tensor<16x4xf32>, tensor<2x4xi32>, tensor<f64>) -> (tensor<f64>, tensor<8x4xf32>, tensor<16x4xf32>)`
  }];
  let arguments = (ins Kiln_Tensor:$hidden, Kiln_Tensor:$weight, Kiln_IndexTensor:$targets, Kiln_RealScalar:$scale, Optional<Kiln_RealScalar>:$cotangent, Optional<Kiln_RankScalar>:$rank, OptionalAttr<I64Attr>:$rows, OptionalAttr<I64Attr>:$classes);
  let results = (outs Kiln_RealScalar:$loss, Kiln_Tensor:$dhidden, Kiln_Tensor:$dweight);
  let assemblyFormat = "$hidden `,` $weight `,` $targets `,` $scale (`,` $cotangent^)? (`rank` $rank^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

#endif
