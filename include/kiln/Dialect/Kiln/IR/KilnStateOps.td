//===- KilnStateOps.td - states and programs ------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNSTATEOPS_TD
#define KILN_DIALECT_KILN_IR_KILNSTATEOPS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/Kiln/IR/KilnInterfaces.td"

def Kiln_StateOp : Kiln_Op<"state", [Symbol, HasParent<"::mlir::ModuleOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a tensor that outlives a step";
  let description = [{
    Parameters, optimizer moments, tables. `of` names the parameter that an
    optimizer state belongs to and `slot` which moment it is (C1). `source` is its name in the
    model's weight files, `aliases` other spellings, `copies` names under which
    such files repeat the tensor because weights are tied. A `frozen` state gets no
    gradient. The state is stored where its type says. A state of role `mirror` is a
    copy of the parameter `of` in another element type or another memory (C2): the
    runtime makes it before the first step, rounding each element, and programs
    keep it equal; files never have it. Numbers of `init` are finite, and a rotary
    table has a column per frequency (C3). All elements of a state of integers are
    one integer at first, and it is not trained (C4).

    Example: `kiln.state @w : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 2.0e-02>}`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Kiln_StateTensor>:$type, Kiln_RoleAttr:$role, AnyAttr:$init,
    OptionalAttr<FlatSymbolRefAttr>:$of, OptionalAttr<StrAttr>:$slot, OptionalAttr<StrAttr>:$source, OptionalAttr<StrArrayAttr>:$aliases, OptionalAttr<StrArrayAttr>:$copies,
    UnitAttr:$frozen);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
    bool isTrainable() { return getRole() == ::kiln::Role::Parameter && !getFrozen(); }
  }];
}
// What no kernel has in it.
defvar Kiln_InProgram = ParentOneOf<["::kiln::ProgramOp", "::kiln::AccumulateOp"]>;

def Kiln_ReadOp : Kiln_Op<"read", [Pure, Kiln_InProgram,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>]> {
  let summary = "the value of a state at entry of the program";
  let description = [{
    The type is that of the state. Up to the planned level, a read of a state on
    the host may also have the type that the state would have on the device: it is
    the value on the device, and `kiln-place-copies` decides when it is copied. The
    attribute `kiln.prefetch` of such a read says how many commands earlier.

    Example: `%w = kiln.read @w : tensor<4x8xf32>`
  }];
  let arguments = (ins FlatSymbolRefAttr:$state);
  let results = (outs Kiln_StateTensor:$y);
  let assemblyFormat = "$state attr-dict `:` type($y)";
}
def Kiln_WriteOp : Kiln_Op<"write", [Kiln_InProgram,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>]> {
  let summary = "defines the value of a state at exit of the program";
  let description = "At most one per state and program.\n\nExample: `kiln.write @w, %w1 : tensor<4x8xf32>`";
  let arguments = (ins FlatSymbolRefAttr:$state, Kiln_StateTensor:$value);
  let assemblyFormat = "$state `,` $value attr-dict `:` type($value)";
}
def Kiln_ProgramOp : Kiln_Op<"program", [FunctionOpInterface, IsolatedFromAbove, HasParent<"::mlir::ModuleOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a program over the module's states";
  let description = [{
    Arguments and results carry `kiln.name` ("tokens", "targets", "rng",
    "loss_scale", "lr", "step", "clip", "position"; "loss", "grad_norm",
    "logits"); a gradient result of `@train` carries `kiln.gradient = @state`,
    the name of a state (C3). Both are tensors on the device (C1); the body has ops
    of this dialect alone and ends in `kiln.return` (C2). The runtime knows a program by its symbol, or by the
    attribute `kiln.name` of a program whose symbol had to give way to another symbol.

    The inputs of a program of kind `forward` are what the runtime knows how to
    fill in: `tokens` and `targets`, i32 [batch, sequence length], `rng`, i64
    [1, 3], `loss_scale`, f64 [], and inputs of real numbers that the model
    declares (`#kiln.input<data>`). It has and uses `tokens`. A target of -100
    does not count; `loss_scale` is 1 / the number of targets of the whole batch
    that do, so that the losses of micro-batches add up to the mean over the
    batch. It returns the loss, f64 [].

    Example: `kiln.program @f(%x: tensor<4xf32> {kiln.name = "x"}) -> tensor<4xf32> attributes {kind = #kiln.program_kind<forward>} { kiln.return %x : tensor<4xf32> }`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<FunctionType>:$function_type, Kiln_ProgramKindAttr:$kind,
    OptionalAttr<DictArrayAttr>:$arg_attrs, OptionalAttr<DictArrayAttr>:$res_attrs);
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    ::llvm::ArrayRef<::mlir::Type> getArgumentTypes() { return getFunctionType().getInputs(); }
    ::llvm::ArrayRef<::mlir::Type> getResultTypes() { return getFunctionType().getResults(); }
    ::mlir::Region *getCallableRegion() { return &getBody(); }
    ::mlir::Block &getBlock() { return getBody().front(); }
    /// The argument with `kiln.name` = name, or null.
    ::mlir::BlockArgument getInput(::llvm::StringRef name);
    /// What an argument is for: its `kiln.input`, or what follows from its name;
    /// null if nothing does.
    ::kiln::InputAttr getInputFact(unsigned index);
    /// The argument with a role that one argument at most has, or null.
    ::mlir::BlockArgument getInput(::kiln::InputRole role);
    /// `kiln.name` of an argument or result, or empty.
    ::llvm::StringRef getInputName(unsigned index);
    ::llvm::StringRef getOutputName(unsigned index);
    ::kiln::ReturnOp getReturn();
  }];
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::FunctionType":$type, "::kiln::ProgramKind":$kind)>];
  let skipDefaultBuilders = 1;
  let hasRegionVerifier = 1;
}
def Kiln_ReturnOp : Kiln_Op<"return", [Pure, Terminator, HasParent<"::kiln::ProgramOp">,
    DispatchableOpInterface]> {
  let summary = "ends a program";
  let description = "Operand types are the program's result types (C1).\n\nExample: `kiln.return %loss : tensor<f64>`";
  let arguments = (ins Variadic<Kiln_AnyTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let hasVerifier = 1;
}
def Kiln_AccumulateOp : Kiln_Op<"accumulate", [SingleBlock, RecursiveMemoryEffects, HasParent<"::kiln::ProgramOp">,
    DispatchableOpInterface]> {
  let summary = "runs its body for every micro-batch and sums what it yields";
  let description = [{
    Each of `sliced` is cut into `count` equal parts along dimension 0; the body's
    first block arguments are the part of this iteration (C1). They are followed by one
    argument per result: the sum over earlier iterations (zero at first; a result is its
    contributions added in index order). The body yields the new sums. Other
    values are used from above.

    Example: `%s = kiln.accumulate sliced(%x) count 2 : (tensor<4xf32>) -> tensor<2xf32> { ^bb0(%part: tensor<2xf32>, %sum: tensor<2xf32>): %n = kiln.add %sum, %part : tensor<2xf32> kiln.yield %n : tensor<2xf32> }`
  }];
  let arguments = (ins Variadic<Kiln_AnyTensor>:$sliced, I64Attr:$count);
  let results = (outs Variadic<Kiln_AnyTensor>:$sums);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`sliced` `(` $sliced `)` `count` $count attr-dict `:` functional-type(operands, results) $body";
  let hasRegionVerifier = 1;
}
def Kiln_YieldOp : Kiln_Op<"yield", [Pure, Terminator, ReturnLike, 
    DispatchableOpInterface]> {
  let summary = "ends a region";
  let description = "Gives the values of the enclosing op's results.\n\nExample: see `kiln.accumulate`.";
  let arguments = (ins Variadic<Kiln_AnyTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}
def Kiln_PhaseOp : Kiln_Op<"phase", [Kiln_InProgram, DispatchableOpInterface]> {
  let summary = "where the backward pass begins";
  let description = [{
    Ops in front of it belong to the forward pass, ops behind it to the backward
    pass. A value that crosses it is a residual.

    Example: `kiln.phase backward`
  }];
  let assemblyFormat = "`backward` attr-dict";
}
def Kiln_RecomputeOp : Kiln_Op<"recompute", [SingleBlock, IsolatedFromAbove, Kiln_InProgram,
    DispatchableOpInterface]> {
  let summary = "repeats forward ops for the backward pass";
  let description = [{
    The body repeats ops that the forward pass already ran, so that their result
    need not be kept. The region keeps CSE from merging them with the originals,
    and the op has no purity trait, so no pass moves it: its position is the plan's.

    Example: `%h = kiln.recompute(%x) : (tensor<4xf32>) -> tensor<4xf32> { ^bb0(%a: tensor<4xf32>): %b = kiln.relu %a : tensor<4xf32> kiln.yield %b : tensor<4xf32> }`
  }];
  let arguments = (ins Variadic<Kiln_AnyTensor>:$inputs);
  let results = (outs Variadic<Kiln_AnyTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "`(` $inputs `)` attr-dict `:` functional-type(operands, results) $body";
  let hasRegionVerifier = 1;
}

class Kiln_CopyBegin<string mnemonic> : Kiln_CopyOp<mnemonic, [Kiln_InProgram,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let arguments = (ins Kiln_AnyTensor:$x);
  let results = (outs Kiln_AnyTensor:$token);
  let assemblyFormat = "$x attr-dict `:` type($x) `to` type($token)";
  let hasVerifier = 1;
}
def Kiln_CopyOutOp : Kiln_CopyBegin<"copy_out"> {
  let summary = "begins to copy a tensor from the device to the host";
  let description = [{
    The copy runs beside the ops that follow. Until the one `kiln.copy_wait` that the
    result is for (C1), the source must stay as it is and the result is not
    there. Copies of one direction happen in the order of their beginnings. No
    pass moves a copy: its position is the plan's. The types are the same in
    different memories (C2).

    Example: `%f = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>`
  }];
}
def Kiln_CopyInOp : Kiln_CopyBegin<"copy_in"> {
  let summary = "begins to copy a tensor from the host to the device";
  let description = "As `kiln.copy_out`, in the other direction.\n\nExample: `%f = kiln.copy_in %h : tensor<4xf32, #kiln.memory<host>> to tensor<4xf32>`";
}
def Kiln_CopyWaitOp : Kiln_CopyOp<"copy_wait", [AllTypesMatch<["token", "y"]>, Kiln_InProgram,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "waits for the end of a copy";
  let description = [{
    `token` is the result of the copy of `source` (C1), in the same block. From here on the copy can be
    read, and the source may go.

    Example: `%h = kiln.copy_wait %f, %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>`
  }];
  let arguments = (ins Kiln_AnyTensor:$token, Kiln_AnyTensor:$source);
  let results = (outs Kiln_AnyTensor:$y);
  let assemblyFormat = "$token `,` $source attr-dict `:` type($source) `to` type($y)";
  let hasVerifier = 1;
}

def Kiln_DispatchOp : Kiln_Op<"dispatch", [SingleBlock, IsolatedFromAbove, Kiln_InProgram,
    DeclareOpInterfaceMethods<GemmOpInterface,
      ["isGemm", "getEpilogueKind", "getMatrix", "getMatrixType", "getEpilogueResults"]>]> {
  let summary = "ops that become one generated kernel";
  let description = [{
    The body holds kiln ops of one family. `rows` and `cols` are the iteration
    space of a row dispatch. A dispatch is placed by its position: it is not moved.
    It runs on the host if its results are stored there.

    Example: `%y = kiln.dispatch row(%x) space [8, 4] : (tensor<8x4xf32>) -> tensor<8x4xf32> { ^bb0(%a: tensor<8x4xf32>): %b = kiln.relu %a : tensor<8x4xf32> kiln.yield %b : tensor<8x4xf32> }`

    One of family gemm is a matrix product with an *epilogue*: row ops that the
    thread which computed a tile of the product works on that tile. The body
    begins with the product, one of rank 2 onto nothing, of the first two
    arguments, which nothing else uses (E1); the space is that of the product
    (E2). Every element of the epilogue depends on elements in its own place, row
    or column alone: no reductions, no gathers (E3). Results are the epilogue's
    and last, if something else reads it, the product (E4); if nothing does, one
    of the results can take its place in memory (E5). The epilogue updates nothing
    in place (E6).

    Example: `%h = kiln.dispatch gemm(%x, %w, %b) space [8, 4] : (tensor<8x2xf32>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<8x4xf32> { ^bb0(%a: tensor<8x2xf32>, %c: tensor<2x4xf32>, %d: tensor<4xf32>): %p = kiln.matmul %a, %c : (tensor<8x2xf32>, tensor<2x4xf32>) -> tensor<8x4xf32> %e = kiln.broadcast %d dims [1] : tensor<4xf32> to tensor<8x4xf32> %s = kiln.add %p, %e : tensor<8x4xf32> kiln.yield %s : tensor<8x4xf32> }`
  }];
  let arguments = (ins StrAttr:$kind, Variadic<Kiln_AnyTensor>:$inputs, OptionalAttr<DenseI64ArrayAttr>:$space);
  let results = (outs Variadic<Kiln_AnyTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "custom<KernelKind>($kind) `(` $inputs `)` (`space` $space^)? attr-dict `:` functional-type(operands, results) $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Row, gemm or kernel.
    ::kiln::Family getFamily() { return ::kiln::familyOfKind(getKind()); }
    /// The product of a dispatch of family gemm, null for other families.
    ::kiln::MatmulOp getMatmul();
    /// Whether the last result is the product itself.
    bool keepsMatmul();
  }];
}

#endif
