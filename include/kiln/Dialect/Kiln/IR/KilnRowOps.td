//===- KilnRowOps.td - Norms, losses, lookups, dropout -----*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNROWOPS_TD
#define KILN_DIALECT_KILN_IR_KILNROWOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"

defvar RowForwardTraits = [Pure,
  DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>,
  DeclareOpInterfaceMethods<PrecisionOpInterface, ["keepsFullOperand", "keepsFullResult"]>,
  DeclareOpInterfaceMethods<DifferentiableOpInterface>,
  DispatchableOpInterface,
  DeclareOpInterfaceMethods<RowOpInterface>];
defvar RowRebuildTraits = [Pure,
  DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>,
  DeclareOpInterfaceMethods<PrecisionOpInterface, ["keepsFullOperand"]>,
  DeclareOpInterfaceMethods<DifferentiableOpInterface>,
  DeclareOpInterfaceMethods<DispatchableOpInterface, ["isCheapToRebuild"]>,
  DeclareOpInterfaceMethods<RowOpInterface>,
  DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>];
defvar RowGradientTraits = [Pure,
  DispatchableOpInterface,
  DeclareOpInterfaceMethods<RowOpInterface>];

class Kiln_RowOp<string mnemonic, list<Trait> traits> : Kiln_Op<mnemonic, traits> {
  let assemblyFormat = "operands attr-dict `:` functional-type(operands, results)";
}

def Kiln_LayerNormOp : Kiln_RowOp<"layer_norm", RowForwardTraits # [DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum", "entersExactly", "addInnerNoise"]>]> {
  let summary = "layer normalization over the last dimension";
  let description = [{
    For each row of `x` [.., C], computes mean = sum(x)/C,
    rstd = 1/sqrt(sum((x-mean)^2)/C + eps) and y = (x-mean)*rstd*gamma + beta.
    `mean` and `rstd` have the shape of `x` without its last dimension (C1);
    `gamma` and `beta` have shape [C] (C2). If `x` and `y` are bf16, the other
    tensors are f32.

    Example: `%y, %mean, %rstd = kiln.layer_norm %x, %gamma, %beta {eps = 1.0e-05} : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>)`
  }];
  let arguments = (ins Kiln_Tensor:$x, Kiln_Tensor:$gamma, Kiln_Tensor:$beta, F64Attr:$eps);
  let results = (outs Kiln_Tensor:$y, Kiln_Tensor:$mean, Kiln_Tensor:$rstd);
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$gamma, "::mlir::Value":$beta, "double":$eps)>];
}
def Kiln_NormalizeOp : Kiln_RowOp<"normalize", RowRebuildTraits> {
  let summary = "(x - mean) * rstd with given statistics";
  let description = [{
    Computes the normalized value of a norm from its statistics, or x * rstd
    without a mean. The backward pass recomputes the value by this op instead of
    keeping it. If `x` is bf16, the statistics are f32, and `y` is bf16, or f32
    without rounding.

    Example: `%h = kiln.normalize %x, %mean, %rstd : (tensor<8x16xf32>, tensor<8xf32>, tensor<8xf32>) -> tensor<8x16xf32>`
  }];
  // `statistics` is either (mean, rstd) or only (rstd).
  let arguments = (ins Kiln_Tensor:$x, Variadic<Kiln_Tensor>:$statistics);
  let results = (outs Kiln_Tensor:$y);
  let hasVerifier = 1;
}
def Kiln_AffineOp : Kiln_RowOp<"affine", RowRebuildTraits> {
  let summary = "x * gamma + beta with one gamma and beta per column";
  let description = [{
    Computes the second half of a norm. For `x` [.., C], y = x * gamma, or
    y = fma(x, gamma, beta) if `beta` is present. `gamma` and `beta` have shape
    [C], and are f32 if `x` or `y` is bf16.

    Example: `%y = kiln.affine %x, %gamma, %beta : (tensor<8x16xf32>, tensor<16xf32>, tensor<16xf32>) -> tensor<8x16xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, Kiln_Tensor:$gamma, Optional<Kiln_Tensor>:$beta);
  let results = (outs Kiln_Tensor:$y);
  let hasVerifier = 1;
}
def Kiln_LayerNormGradOp : Kiln_RowOp<"layer_norm_grad", RowGradientTraits # [DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum", "entersExactly"]>]> {
  let summary = "gradient of layer_norm with respect to its input";
  let description = [{
    With h = (x-mean)*rstd and g = dy*gamma, computes
    dx = rstd * (g - sum(g)/C - h * sum(g*h)/C). Separate `kiln.reduce` ops of
    dy*h and dy compute the gradients of gamma and beta.

    Example: `%dx = kiln.layer_norm_grad %x, %gamma, %mean, %rstd, %dy : (tensor<8x16xf32>, tensor<16xf32>, tensor<8xf32>, tensor<8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, Kiln_Tensor:$gamma, Kiln_Tensor:$mean, Kiln_Tensor:$rstd, Kiln_Tensor:$dy);
  let results = (outs Kiln_Tensor:$dx);
  let hasVerifier = 1;
}
def Kiln_RmsNormOp : Kiln_RowOp<"rms_norm", RowForwardTraits # [DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding", "getLongestSum"]>]> {
  let summary = "root mean square normalization over the last dimension";
  let description = [{
    Computes rstd = 1/sqrt(sum(x^2)/C + eps) and y = x*rstd*gamma. `rstd` has the
    shape of `x` without its last dimension (C1), and `gamma` has shape [C] (C2).
    Both are f32 if `x` is bf16.

    Example: `%y, %rstd = kiln.rms_norm %x, %gamma {eps = 1.0e-06} : (tensor<8x16xf32>, tensor<16xf32>) -> (tensor<8x16xf32>, tensor<8xf32>)`
  }];
  let arguments = (ins Kiln_Tensor:$x, Kiln_Tensor:$gamma, F64Attr:$eps);
  let results = (outs Kiln_Tensor:$y, Kiln_Tensor:$rstd);
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$x, "::mlir::Value":$gamma, "double":$eps)>];
}
def Kiln_RmsNormGradOp : Kiln_RowOp<"rms_norm_grad", RowGradientTraits # [DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum"]>]> {
  let summary = "gradient of rms_norm with respect to its input";
  let description = [{
    With h = x*rstd and g = dy*gamma, computes dx = rstd * (g - h * sum(g*h)/C).

    Example: `%dx = kiln.rms_norm_grad %x, %gamma, %rstd, %dy : (tensor<8x16xf32>, tensor<16xf32>, tensor<8xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, Kiln_Tensor:$gamma, Kiln_Tensor:$rstd, Kiln_Tensor:$dy);
  let results = (outs Kiln_Tensor:$dx);
  let hasVerifier = 1;
}

def Kiln_SoftmaxOp : Kiln_RowOp<"softmax", [Pure, PrecisionOpInterface,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DispatchableOpInterface,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding", "getLongestSum"]>]> {
  let summary = "softmax over the last dimension";
  let description = "y = exp(x - max(x)) / sum(exp(x - max(x))).\n\nExample: `%y = kiln.softmax %x : (tensor<8x16xf32>) -> tensor<8x16xf32>`";
  let arguments = (ins Kiln_Tensor:$x);
  let results = (outs Kiln_Tensor:$y);
  let hasVerifier = 1;
}
def Kiln_SoftmaxGradOp : Kiln_RowOp<"softmax_grad", RowGradientTraits # [DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum"]>]> {
  let summary = "gradient of softmax from its output";
  let description = "dx = y * (dy - sum(y*dy)).\n\nExample: `%dx = kiln.softmax_grad %y, %dy : (tensor<8x16xf32>, tensor<8x16xf32>) -> tensor<8x16xf32>`";
  let arguments = (ins Kiln_Tensor:$y, Kiln_Tensor:$dy);
  let results = (outs Kiln_Tensor:$dx);
  let hasVerifier = 1;
}

def Kiln_SoftmaxCrossEntropyOp : Kiln_RowOp<"softmax_cross_entropy", RowGradientTraits # [DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding", "getLongestSum", "addInnerNoise"]>]> {
  let summary = "cross entropy of each row and its gradient";
  let description = [{
    For each row x of `logits` [N, V] with target t, computes
    row_loss = log(sum(exp(x - max))) - (x[t] - max) and
    dlogits = scale * (softmax(x) - onehot(t)). A row with target -100 has the
    loss 0 and a zero gradient. `row_loss` is f32 if the logits are bf16. Without
    the result `dlogits`, only the loss is computed.

    Example: `%loss, %d = kiln.softmax_cross_entropy %logits, %targets, %scale : (tensor<8x16xf32>, tensor<8xi32>, tensor<f64>) -> (tensor<8xf32>, tensor<8x16xf32>)`
  }];
  let arguments = (ins Kiln_Tensor:$logits, Kiln_IndexTensor:$targets, Kiln_RealScalar:$scale);
  let results = (outs Kiln_Tensor:$rowLoss, Optional<Kiln_Tensor>:$dlogits);
  let hasVerifier = 1;
}
def Kiln_ShardSoftmaxOp : Kiln_RowOp<"shard_softmax", RowGradientTraits # [DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum"]>]> {
  let summary = "the contribution of the classes of this rank to a cross entropy";
  let description = [{
    `logits` [N, K] are those of the classes rank*K, ..., rank*K + K - 1 out of
    `classes` classes; columns of further classes are padding. For each row x with
    target t, computes log_sum = log(sum(exp(x))) over the classes, or a number that
    is small enough to have no effect if all columns are padding, and
    at_target = x[t], or 0 if t is the class of another rank. Both have N elements
    and full precision.

    Example: `%s, %t = kiln.shard_softmax %logits, %targets, %rank {classes = 30} : (tensor<8x16xf32>, tensor<8xi32>, tensor<i32>) -> (tensor<8xf32>, tensor<8xf32>)`
  }];
  let arguments = (ins Kiln_Tensor:$logits, Kiln_IndexTensor:$targets, Kiln_RankScalar:$rank, I64Attr:$classes);
  let results = (outs Kiln_Tensor:$log_sum, Kiln_Tensor:$at_target);
  let hasVerifier = 1;
}
def Kiln_ShardCrossEntropyOp : Kiln_RowOp<"shard_cross_entropy", RowGradientTraits # [DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>]> {
  let summary = "cross entropy of each row and its gradient for the classes of this rank";
  let description = [{
    `log_sum` and `at_target` [N] are those of all classes: the results of
    `kiln.shard_softmax`, combined over the ranks. For each row x of `logits` [N, K]
    with target t, computes row_loss = log_sum - at_target and
    dlogits = scale * (exp(x - log_sum) - onehot(t - rank*K)). A row with target -100
    has the loss 0 and a zero gradient, and padding has a zero gradient. Without the
    result `dlogits`, only the loss is computed.

    Example: `%loss, %d = kiln.shard_cross_entropy %logits, %targets, %rank, %s, %t, %scale {classes = 30} : (tensor<8x16xf32>, tensor<8xi32>, tensor<i32>, tensor<8xf32>, tensor<8xf32>, tensor<f64>) -> (tensor<8xf32>, tensor<8x16xf32>)`
  }];
  let arguments = (ins Kiln_Tensor:$logits, Kiln_IndexTensor:$targets, Kiln_RankScalar:$rank, Kiln_Tensor:$log_sum, Kiln_Tensor:$at_target, Kiln_RealScalar:$scale, I64Attr:$classes);
  let results = (outs Kiln_Tensor:$rowLoss, Optional<Kiln_Tensor>:$dlogits);
  let hasVerifier = 1;
}
def Kiln_ScaledTotalOp : Kiln_RowOp<"scaled_total", RowGradientTraits # [DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum"]>]> {
  let summary = "scaled sum of all elements in f64";
  let description = "Example: `%loss = kiln.scaled_total %rows, %scale : (tensor<8xf32>, tensor<f64>) -> tensor<f64>`";
  let arguments = (ins Kiln_Tensor:$x, Kiln_RealScalar:$scale);
  let results = (outs Kiln_RealScalar:$total);
}
def Kiln_CrossEntropyOp : Kiln_RowOp<"cross_entropy", [Pure, PrecisionOpInterface,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>, DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "scaled sum of the cross entropy of logits and targets";
  let description = [{
    `targets` has one element per row of `logits` [N, V], in any shape (C1). Rows
    with target -100 are ignored. `--kiln-expand-loss` replaces this op by
    `softmax_cross_entropy` and `scaled_total`.

    Example: `%loss = kiln.cross_entropy %logits, %targets, %scale : (tensor<8x16xf32>, tensor<2x4xi32>, tensor<f64>) -> tensor<f64>`
  }];
  let arguments = (ins Kiln_Tensor:$logits, Kiln_IndexTensor:$targets, Kiln_RealScalar:$scale);
  let results = (outs Kiln_RealScalar:$loss);
  let hasVerifier = 1;
}
def Kiln_CrossEntropyGradOp : Kiln_RowOp<"cross_entropy_with_grad", [Pure, DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "cross_entropy and the gradient of its logits";
  let description = "`dlogits` is the gradient for a cotangent of one, or for `cotangent`.\n\nExample: `%loss, %d = kiln.cross_entropy_with_grad %logits, %targets, %scale : (tensor<8x16xf32>, tensor<2x4xi32>, tensor<f64>) -> (tensor<f64>, tensor<8x16xf32>)`";
  let arguments = (ins Kiln_Tensor:$logits, Kiln_IndexTensor:$targets, Kiln_RealScalar:$scale, Optional<Kiln_RealScalar>:$cotangent);
  let results = (outs Kiln_RealScalar:$loss, Kiln_Tensor:$dlogits);
  let hasVerifier = 1;
}

def Kiln_EmbeddingOp : Kiln_RowOp<"embedding", [Pure,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>,
    DeclareOpInterfaceMethods<PrecisionOpInterface, ["getPrecision", "keepsFullOperand"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["gathersRows"]>,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>]> {
  let summary = "lookup of table rows";
  let description = [{
    Computes y[i, :] = table[tokens[i], :] for the flattened tokens. `y` has shape
    [tokens.size, C] (C1) and is bf16 or has the element type of the table. A
    token outside the table is undefined behavior; the runtime checks tokens when
    it reads them. Row `padding_index` of the table (C2) is looked up like any
    other, but the lookup does not contribute to its gradient.

    With `rank`, the table has the rows rank*V, ..., rank*V + V - 1 of a larger
    table, where V is its number of rows. Tokens and `padding_index` are rows of the
    larger table, and y[i, :] = 0 if row tokens[i] belongs to another rank.

    Example: `%y = kiln.embedding %tokens, %table : (tensor<2x4xi32>, tensor<16x8xf32>) -> tensor<8x8xf32>`
  }];
  let arguments = (ins Kiln_IndexTensor:$tokens, Kiln_Tensor:$table, Optional<Kiln_RankScalar>:$rank, OptionalAttr<I64Attr>:$padding_index);
  let results = (outs Kiln_Tensor:$y);
  let hasVerifier = 1;
}
def Kiln_EmbeddingGradOp : Kiln_RowOp<"embedding_grad", [Pure,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getTiedOperand"]>,
    DeclareOpInterfaceMethods<KernelOpInterface, ["readsPitched", "accumulatesInPlace"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum"]>]> {
  let summary = "gradient of embedding with respect to its table";
  let description = [{
    Computes dtable[v, :] = accumulate[v, :] + the sum of dy[i, :] over all i with
    tokens[i] = v, added in the order of i. Without `accumulate`, the sum starts
    from zero. `dtable` must be f32 if `dy` is bf16. Tokens equal to
    `padding_index`, a row of the table or -1 (C1), contribute nothing.

    Example: `%dt = kiln.embedding_grad %tokens, %dy : (tensor<2x4xi32>, tensor<8x8xf32>) -> tensor<16x8xf32>`
  }];
  let arguments = (ins Kiln_IndexTensor:$tokens, Kiln_Tensor:$dy, Optional<Kiln_Tensor>:$accumulate, OptionalAttr<I64Attr>:$padding_index);
  let results = (outs Kiln_Tensor:$dtable);
  let hasVerifier = 1;
}

def Kiln_ShardRowsOp : Kiln_RowOp<"shard_rows", [Pure, DispatchableOpInterface,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>]> {
  let summary = "the rows of the shard of this rank that tokens denote";
  let description = [{
    y[i] = tokens[i] - rank*rows if this is a number from 0 to rows - 1, and
    otherwise -1. Tokens equal to `padding_index` become -1, too.

    Example: `%y = kiln.shard_rows %tokens, %rank {rows = 16} : (tensor<2x4xi32>, tensor<i32>) -> tensor<2x4xi32>`
  }];
  let arguments = (ins Kiln_IndexTensor:$tokens, Kiln_RankScalar:$rank, I64Attr:$rows, OptionalAttr<I64Attr>:$padding_index);
  let results = (outs Kiln_IndexTensor:$y);
  let hasVerifier = 1;
}

def Kiln_ShardPositionsOp : Kiln_RowOp<"shard_positions", [Pure, DispatchableOpInterface,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>]> {
  let summary = "the positions of the rows of this rank in their sequences";
  let description = [{
    Each rank has N consecutive rows of a tensor, where N is the number of elements
    of `y`, and sequences have `period` rows: y[i] = (rank*N + i) mod period. Ranks
    have less than 2^31 rows together (C1).

    Example: `%y = kiln.shard_positions %rank {period = 8} : (tensor<i32>) -> tensor<12xi32>`
  }];
  let arguments = (ins Kiln_RankScalar:$rank, I64Attr:$period);
  let results = (outs Kiln_IndexTensor:$y);
  let hasVerifier = 1;
}

def Kiln_DropoutOp : Kiln_RowOp<"dropout", [Pure, PrecisionOpInterface, LaunchArgumentsOpInterface,
    DeclareOpInterfaceMethods<RowNumberOpInterface>,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["isCheapToRebuild"]>,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>]> {
  let summary = "dropout: zeroes elements with probability p and scales the others by 1/(1-p)";
  let description = [{
    The mask is a pure function of the seed and step in `rng`, `key`, the index of
    the sequence in the global batch, the row within the sequence, and the column.
    The rows of `x` belong to `sequences` sequences of equal length. The gradient
    is the same op applied to the cotangent.

    With `rank`, `x` has the rows rank*R, ..., rank*R + R - 1 of a larger tensor,
    where R is its number of rows. The sequences of the larger tensor have `length`
    rows each. `rank` and `length` are given together (C1).

    Example: `%y = kiln.dropout %x, %rng {p = 1.0e-01, key = 3, sequences = 2} : (tensor<8x16xf32>, tensor<1x3xi64>) -> tensor<8x16xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, Kiln_Rng:$rng, Optional<Kiln_RankScalar>:$rank, F64Attr:$p, I64Attr:$key, I64Attr:$sequences,
    OptionalAttr<I64Attr>:$length);
  let results = (outs Kiln_Tensor:$y);
  let builders = [OpBuilder<(ins "::mlir::Type":$type, "::mlir::Value":$x, "::mlir::Value":$rng,
    "::llvm::APFloat":$p, "int64_t":$key, "int64_t":$sequences)>];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::llvm::SmallVector<::llvm::StringRef> getLaunchArgumentNames() { return {"key"}; }
  }];
}

def Kiln_RopeOp : Kiln_RowOp<"rope", [Pure,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>,
    DeclareOpInterfaceMethods<PrecisionOpInterface, ["keepsFullOperand"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DispatchableOpInterface,
    DeclareOpInterfaceMethods<KernelOpInterface, ["readsPitched", "writesPitched"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "rotary position embedding (rotate-half)";
  let description = [{
    `x` has shape [sequences*T, heads*d]; `cos` and `sin` have shape [P, d/2] with
    P >= T (C1), and are f32 if `x` is bf16. In each head, the elements j and
    j + d/2 are rotated by the angle of position t = row mod T:
    y1 = x1*cos - x2*sin, y2 = x2*cos + x1*sin. `inverse` rotates by the negative
    angle, which computes the gradient.

    Example: `%y = kiln.rope %x, %cos, %sin {heads = 2, sequences = 2} : (tensor<8x16xf32>, tensor<4x4xf32>, tensor<4x4xf32>) -> tensor<8x16xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, Kiln_Tensor:$cos, Kiln_Tensor:$sin, I64Attr:$heads, I64Attr:$sequences, UnitAttr:$inverse);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "operands (`inverse` $inverse^)? attr-dict `:` functional-type(operands, results)";
  let hasVerifier = 1;
}

def Kiln_SumSquaresOp : Kiln_RowOp<"sum_squares", RowGradientTraits # [DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum"]>]> {
  let summary = "sum of squares of each row, in f64";
  let description = [{
    The last dimension is the columns and all others are the rows; a rank-1 tensor
    is one row.

    Example: `%s = kiln.sum_squares %g : (tensor<8x16xf32>) -> tensor<8xf64>`
  }];
  let arguments = (ins Kiln_Tensor:$x);
  let results = (outs Kiln_Tensor:$y);
  let hasVerifier = 1;
}
def Kiln_ClipFactorOp : Kiln_RowOp<"clip_factor", RowGradientTraits # [DeclareOpInterfaceMethods<ReferenceOpInterface, ["getLongestSum"]>]> {
  let summary = "gradient norm and clipping factor";
  let description = [{
    Computes norm = sqrt(sum(squares)) and factor = min(clip/(norm + 1e-6), 1), or
    factor = 1 if clip <= 0.

    With `gradient_scale`, the gradients were multiplied by this number: `norm` and
    `factor` are divided by it, so that an update by factor * gradient is the same.
    `is_finite`, which is present if `gradient_scale` is (C1), is 1 if the norm is
    finite, and otherwise 0: a gradient has overflowed, and the step must be
    skipped.

    Example: `%factor, %norm = kiln.clip_factor %squares, %clip : (tensor<8xf64>, tensor<f64>) -> (tensor<f64>, tensor<f64>)`
  }];
  let arguments = (ins Kiln_Tensor:$squares, Kiln_RealScalar:$clip, Optional<Kiln_RealScalar>:$gradient_scale);
  let results = (outs Kiln_RealScalar:$factor, Kiln_RealScalar:$norm, Optional<Kiln_IntScalar>:$is_finite);
  let hasVerifier = 1;
}

#endif
