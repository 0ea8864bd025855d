//===- KilnElementwiseOps.td - Elementwise ops -------------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNELEMENTWISEOPS_TD
#define KILN_DIALECT_KILN_IR_KILNELEMENTWISEOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"

defvar ElementwiseBaseTraits = [Pure, SameOperandsAndResultType, PrecisionOpInterface,
  DeclareOpInterfaceMethods<DifferentiableOpInterface>,
  DispatchableOpInterface,
  DeclareOpInterfaceMethods<RowOpInterface>,
  DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>];
defvar ElementwiseTraits = ElementwiseBaseTraits # [SequenceOpInterface];
defvar LinearTraits = ElementwiseBaseTraits #
  [DeclareOpInterfaceMethods<SequenceOpInterface, ["isLinear"]>];
defvar MultiplicativeTraits = ElementwiseBaseTraits #
  [DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>];
// Traits of ops that run in full precision, because small relative errors in
// their operands or results cause large errors in later ops.
defvar FullPrecisionTraits = [Pure, SameOperandsAndResultType,
  DeclareOpInterfaceMethods<PrecisionOpInterface, ["getPrecision"]>,
  DeclareOpInterfaceMethods<DifferentiableOpInterface>,
  DispatchableOpInterface,
  DeclareOpInterfaceMethods<RowOpInterface>, SequenceOpInterface,
  DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>];
defvar ActivationTraits = [Pure, SameOperandsAndResultType, PrecisionOpInterface,
  DeclareOpInterfaceMethods<DifferentiableOpInterface>,
  DeclareOpInterfaceMethods<DispatchableOpInterface, ["isCheapToRebuild"]>,
  DeclareOpInterfaceMethods<RowOpInterface>, SequenceOpInterface,
  DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>];
defvar GradientTraits = [Pure, SameOperandsAndResultType,
  DispatchableOpInterface,
  DeclareOpInterfaceMethods<RowOpInterface>,
  DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>];

class Kiln_UnaryBase<string mnemonic, list<Trait> traits> : Kiln_Op<mnemonic, traits> {
  let arguments = (ins Kiln_Tensor:$x);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "$x attr-dict `:` type($x)";
}
class Kiln_BinaryBase<string mnemonic, list<Trait> traits> : Kiln_Op<mnemonic, traits> {
  let arguments = (ins Kiln_Tensor:$a, Kiln_Tensor:$b);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "$a `,` $b attr-dict `:` type($a)";
}

class Kiln_UnaryOp<string mnemonic, string formula, list<Trait> traits = ElementwiseTraits>
    : Kiln_UnaryBase<mnemonic, traits> {
  let summary = formula;
  let description = "Computes `y = " # formula # "` for every element.\n\n"
    "Example: `%y = kiln." # mnemonic # " %x : tensor<4x8xf32>`";
}
class Kiln_BinaryOp<string mnemonic, string formula, list<Trait> traits>
    : Kiln_BinaryBase<mnemonic, traits> {
  let summary = formula;
  let description = "Computes `y = " # formula # "` for every element. Both operands have the type of the result; use "
    "`kiln.broadcast` first if their shapes differ.\n\n"
    "Example: `%y = kiln." # mnemonic # " %a, %b : tensor<4x8xf32>`";
}

def Kiln_NegOp : Kiln_UnaryOp<"neg", "-x", LinearTraits>;
def Kiln_ExpOp : Kiln_UnaryOp<"exp", "exp(x)", FullPrecisionTraits>;
def Kiln_LogOp : Kiln_UnaryOp<"log", "log(x)", FullPrecisionTraits>;
def Kiln_SqrtOp : Kiln_UnaryOp<"sqrt", "sqrt(x)">;
def Kiln_RsqrtOp : Kiln_UnaryOp<"rsqrt", "1 / sqrt(x)", FullPrecisionTraits>;
def Kiln_TanhOp : Kiln_UnaryOp<"tanh", "tanh(x)">;
def Kiln_SigmoidOp : Kiln_UnaryOp<"sigmoid", "1 / (1 + exp(-x))">;
def Kiln_AddOp : Kiln_BinaryOp<"add", "a + b", LinearTraits>;
def Kiln_SubOp : Kiln_BinaryOp<"sub", "a - b", LinearTraits>;
def Kiln_MulOp : Kiln_BinaryOp<"mul", "a * b", MultiplicativeTraits>;
def Kiln_DivOp : Kiln_BinaryOp<"div", "a / b", MultiplicativeTraits>;

def Kiln_ScaleOp : Kiln_Op<"scale", LinearTraits> {
  let summary = "factor * x for a constant factor";
  let description = [{
    Computes `y = factor * x`. The factor is first rounded to the type of the
    arithmetic, which is f32 for bf16 elements.

    Example: `%y = kiln.scale %x by 5.0e-01 : tensor<4x8xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, F64Attr:$factor);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "$x `by` $factor attr-dict `:` type($x)";
}

def Kiln_ReluOp : Kiln_UnaryBase<"relu", ActivationTraits> {
  let summary = "max(x, 0)";
  let description = "Computes `y = x > 0 ? x : 0`. The result of NaN is NaN.\n\nExample: `%y = kiln.relu %x : tensor<4x8xf32>`";
}
def Kiln_SiluOp : Kiln_UnaryBase<"silu", ActivationTraits> {
  let summary = "x * sigmoid(x)";
  let description = "Computes `y = x / (1 + exp(-x))`.\n\nExample: `%y = kiln.silu %x : tensor<4x8xf32>`";
}
def Kiln_GeluOp : Kiln_Op<"gelu", ActivationTraits> {
  let summary = "Gaussian error linear unit";
  let description = [{
    With `tanh`, computes `y = x * sigmoid(2u)` with
    `u = sqrt(2/pi) * (x + 0.044715 x^3)`. This is equal to
    `0.5 x (1 + tanh(u))` but avoids its cancellation. Without `tanh`, computes
    `0.5 x (1 + erf(x / sqrt(2)))` as written. For negative x, `1 + erf` cancels:
    the relative error grows with |x|, while the absolute error stays within
    rounding. `docs/design/numerics.md` gives measurements of both forms.

    Example: `%y = kiln.gelu %x tanh : tensor<4x8xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$x, UnitAttr:$tanh);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "$x (`tanh` $tanh^)? attr-dict `:` type($x)";
}
def Kiln_SoftplusOp : Kiln_UnaryBase<"softplus", FullPrecisionTraits> {
  let summary = "log(1 + exp(x)) without overflow";
  let description = [{
    Computes `y = max(x, 0) + log1p(e)` with `e = exp(-|x|)`. With `u = 1 + e`,
    `log1p(e)` is computed as `e` if `u` is 1, and as `log(u) * (e / (u - 1))`
    otherwise, so that small results keep full relative precision. The gradient
    is `dy * sigmoid(x)`.

    Example: `%y = kiln.softplus %x : tensor<4x8xf32>`
  }];
}
def Kiln_SwigluOp : Kiln_BinaryBase<"swiglu", ActivationTraits> {
  let summary = "silu(a) * b";
  let description = "Computes `y = a / (1 + exp(-a)) * b`, the gated activation of Llama.\n\nExample: `%y = kiln.swiglu %gate, %up : tensor<4x8xf32>`";
}

def Kiln_ReluGradOp : Kiln_BinaryBase<"relu_grad", GradientTraits> {
  let summary = "gradient of relu";
  let description = "Computes `y = a > 0 ? b : 0` for the input `a` of relu and the cotangent `b`.\n\nExample: `%dx = kiln.relu_grad %x, %dy : tensor<4x8xf32>`";
}
def Kiln_SiluGradOp : Kiln_BinaryBase<"silu_grad", GradientTraits> {
  let summary = "gradient of silu";
  let description = "Computes `y = b * s * (1 + a (1 - s))` with `s = sigmoid(a)` for the input `a` of silu and the cotangent `b`.\n\nExample: `%dx = kiln.silu_grad %x, %dy : tensor<4x8xf32>`";
}
def Kiln_GeluGradOp : Kiln_Op<"gelu_grad", GradientTraits> {
  let summary = "gradient of gelu";
  let description = [{
    Computes the gradient for the input `a` of gelu and the cotangent `b`. The
    tanh form is `b * (s + a * 2u' * (e*s)*s)` with `e = exp(-2u)` and
    `s = 1/(1+e)`.

    Example: `%dx = kiln.gelu_grad %x, %dy tanh : tensor<4x8xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$a, Kiln_Tensor:$b, UnitAttr:$tanh);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "$a `,` $b (`tanh` $tanh^)? attr-dict `:` type($a)";
}
def Kiln_SwigluGradOp : Kiln_Op<"swiglu_grad", GradientTraits> {
  let summary = "gradients of swiglu";
  let description = [{
    Computes `da = dy * b * s * (1 + a (1 - s))` and `db = dy * a * s` with
    `s = sigmoid(a)`.

    Example: `%da, %db = kiln.swiglu_grad %a, %b, %dy : tensor<4x8xf32>`
  }];
  let arguments = (ins Kiln_Tensor:$a, Kiln_Tensor:$b, Kiln_Tensor:$dy);
  let results = (outs Kiln_Tensor:$da, Kiln_Tensor:$db);
  let assemblyFormat = "$a `,` $b `,` $dy attr-dict `:` type($a)";
}

def Kiln_ConstantOp : Kiln_Op<"constant", [Pure, ConstantLike,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["inferSequences"]>,
    DispatchableOpInterface,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>]> {
  let summary = "constant tensor of equal elements";
  let description = "Example: `%c = kiln.constant dense<1.0> : tensor<4xf32> -> tensor<4xf32>`. The value must be a splat (C1).";
  let arguments = (ins ElementsAttr:$value);
  let results = (outs Kiln_Tensor:$y);
  let assemblyFormat = "$value attr-dict `->` type($y)";
  let hasVerifier = 1;
  let hasFolder = 1;
  let extraClassDeclaration = "double getSplat();";
  let builders = [OpBuilder<(ins "::mlir::RankedTensorType":$type, "double":$splat)>];
}

def Kiln_CastOp : Kiln_Op<"cast", [Pure, SameOperandsAndResultShape, PrecisionOpInterface,
    DeclareOpInterfaceMethods<SequenceOpInterface, ["isLinear"]>,
    DeclareOpInterfaceMethods<DifferentiableOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["isCheapToRebuild"]>,
    DeclareOpInterfaceMethods<RowOpInterface>,
    DeclareOpInterfaceMethods<ReferenceOpInterface, ["getRounding"]>]> {
  let summary = "conversion between floating-point types";
  let description = "Rounds to nearest, ties to even.\n\nExample: `%y = kiln.cast %x : tensor<4xf32> to tensor<4xf64>`";
  let arguments = (ins Kiln_StoredReal:$x);
  let results = (outs Kiln_StoredReal:$y);
  let assemblyFormat = "$x attr-dict `:` type($x) `to` type($y)";
  let hasFolder = 1;
}

#endif
