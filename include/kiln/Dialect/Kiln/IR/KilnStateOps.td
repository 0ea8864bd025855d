//===- KilnStateOps.td - States, programs and regions ------*- tablegen -*-===//
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
    Declares a parameter, an optimizer state, a buffer or a constant table. The
    encoding of the type determines the memory that stores it.

    An optimizer state names its parameter in `of` and its moment in `slot` (C1).
    A state of role `mirror` is a copy of the parameter `of` with another element
    type or in another memory (C2). The runtime fills mirrors before the first
    step, rounding each element, and does not save them; every program that writes
    the parameter also writes the mirror.

    `source` is the name of the tensor in the model's weight files, and `aliases`
    are alternative names. `copies` are the names under which such files repeat
    the tensor because weights are tied. A `frozen` state has no gradient. A state
    with `adapter` is a factor of the low-rank adapter of another parameter, whose
    shape determines one of its dimensions (C5). A state that is `quantized` has the
    bytes of an encoding of a weight and is frozen; files and `init` give the values
    of the weight, which the runtime encodes (C6). Each rank stores its part of a state
    with `shard`; files and `init` give the whole tensor (C7). If such a state is also
    quantized, `shard` divides the weight, and the state has the encoding of the part.

    The numbers in `init` are finite, and a rotary table has one column per
    frequency (C3). A state of integers is initialized with one integer and is not
    trainable (C4).

    Example: `kiln.state @w : tensor<4x8xf32> {role = #kiln.role<parameter>, init = #kiln.normal<mean = 0.0, stddev = 2.0e-02>}`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, TypeAttrOf<Kiln_StateTensor>:$type, Kiln_RoleAttr:$role, AnyAttr:$init,
    OptionalAttr<FlatSymbolRefAttr>:$of, OptionalAttr<StrAttr>:$slot, OptionalAttr<StrAttr>:$source, OptionalAttr<StrArrayAttr>:$aliases, OptionalAttr<StrArrayAttr>:$copies,
    UnitAttr:$frozen, OptionalAttr<Kiln_AdapterAttr>:$adapter, OptionalAttr<Kiln_QuantizedAttr>:$quantized,
    OptionalAttr<Kiln_ShardAttr>:$shard);
  let assemblyFormat = "$sym_name `:` $type attr-dict";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::llvm::StringRef":$name, "::mlir::RankedTensorType":$type, "::kiln::Role":$role,
                                 "::mlir::Attribute":$init), [{
    build($_builder, $_state, name, type, role, init, /*of=*/{}, /*slot=*/{}, /*source=*/{}, /*aliases=*/{},
          /*copies=*/{}, /*frozen=*/false, /*adapter=*/{}, /*quantized=*/{}, /*shard=*/{});
  }]>];
  let extraClassDeclaration = [{
    ::mlir::RankedTensorType getTensorType() { return ::llvm::cast<::mlir::RankedTensorType>(getType()); }
    /// If the state is a shard, returns the type of the whole tensor. Otherwise
    /// returns the type of the state.
    ::mlir::RankedTensorType getWholeType() {
      return getShard() ? getShardAttr().getWholeType() : getTensorType();
    }
    /// If the state is quantized, returns the type of the part of the weight
    /// that it encodes on this rank. Otherwise returns the type of the state.
    ::mlir::RankedTensorType getPartType() {
      return getQuantized() ? getQuantizedAttr().getType() : getTensorType();
    }
    /// Returns the type of the whole tensor or, for a quantized state, of the
    /// whole decoded weight, also if the state is a shard.
    ::mlir::RankedTensorType getWeightType() {
      return getShard() ? getWholeType() : getPartType();
    }
    bool isTrainable() { return getRole() == ::kiln::Role::Parameter && !getFrozen(); }
  }];
}
// The permitted parents of ops that must not be inside a kernel.
defvar Kiln_InProgram = ParentOneOf<["::kiln::ProgramOp", "::kiln::MicrobatchesOp"]>;

def Kiln_ReadOp : Kiln_Op<"read", [Pure, Kiln_InProgram,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>]> {
  let summary = "reads the value of a state at entry of the program";
  let description = [{
    Up to the planned level, a read of a state on the host may yield a tensor on
    the device. `kiln-place-copies` replaces such a read by copies to the device;
    its attribute `kiln.keep` requests one copy that all readers share; otherwise,
    its attribute `kiln.prefetch` gives the number of commands by which each copy
    precedes its readers. Every other read has the type of the state.

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
  let description = "A program writes a state at most once.\n\nExample: `kiln.write @w, %w1 : tensor<4x8xf32>`";
  let arguments = (ins FlatSymbolRefAttr:$state, Kiln_StateTensor:$value);
  let assemblyFormat = "$state `,` $value attr-dict `:` type($value)";
}
def Kiln_ProgramOp : Kiln_Op<"program", [FunctionOpInterface, IsolatedFromAbove, HasParent<"::mlir::ModuleOp">,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a program over the module's states";
  let description = [{
    Arguments and results are tensors on the device (C1). The attribute
    `kiln.name` names them: arguments "tokens", "targets", "rng", "loss_scale",
    "lr", "step", "clip", "position", "gradient_scale" and "tp_rank", and results "loss",
    "grad_norm" and "logits". A gradient result of `@train` has `kiln.gradient = @state` instead,
    where @state is a `kiln.state` (C3). The body contains only ops of this
    dialect and ends with `kiln.return` (C2). The runtime identifies a program by
    its symbol, or, if that symbol was renamed to avoid a conflict, by the
    attribute `kiln.name` of the program.

    A program of kind `forward` has inputs that the runtime can provide: `tokens`
    and `targets`, i32 [batch, sequence length], `rng`, i64 [1, 3], `loss_scale`,
    f64 [], and floating-point inputs that the model declares
    (`#kiln.input<data>`). It has the input `tokens` and uses it. Targets equal to
    -100 are ignored; `loss_scale` is 1 / the number of other targets in the whole
    batch, so the losses of micro-batches add up to the mean over the batch. The
    program returns the loss, f64 [].

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
    /// Returns the argument with `kiln.name` = name, or null.
    ::mlir::BlockArgument getInput(::llvm::StringRef name);
    /// Returns the `kiln.input` attribute of an argument. If the argument has
    /// no such attribute, returns the role that its name determines, or null if
    /// the name determines no role.
    ::kiln::InputAttr getInputFact(unsigned index);
    /// Returns the first argument with this role, or null.
    ::mlir::BlockArgument getInput(::kiln::InputRole role);
    /// Return the attribute `kiln.name` of an argument or result, or an empty
    /// string.
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
  let description = "The operand types are the result types of the program (C1).\n\nExample: `kiln.return %loss : tensor<f64>`";
  let arguments = (ins Variadic<Kiln_AnyTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
  let hasVerifier = 1;
}
def Kiln_MicrobatchesOp : Kiln_Op<"microbatches", [SingleBlock, RecursiveMemoryEffects, HasParent<"::kiln::ProgramOp">,
    DispatchableOpInterface]> {
  let summary = "executes a forward and a backward segment per micro-batch and returns sums";
  let description = [{
    Splits each operand of `sliced` into `count` equal parts along dimension 0, one
    per micro-batch. The results are sums over the micro-batches, in the order in
    which their contributions are computed.

    Up to the planned level, one region contains both segments of a micro-batch. Its
    arguments are the parts of the micro-batch (C1), followed by one argument per
    result: the sum of the preceding contributions, initially zero. It yields the
    new sums.

    `kiln-divide-microbatches` divides the region into the regions `forward` and
    `backward`. The arguments of `forward` are the parts, and it yields *residuals*,
    which are values that the backward segment of the same micro-batch reads. The
    arguments of `backward` are the parts, the residuals and the sums; it yields the
    new sums. The regions may also use values that are defined outside of the op.

    `order` is the sequence in which segments are executed. It contains both segments
    of each micro-batch once, forward first (C2). A micro-batch is in flight from
    the begin of its forward segment to the end of its backward segment. Without
    `order`, the segments alternate: F0 B0 F1 B1 and so on.

    Example: `%s = kiln.microbatches sliced(%x) count 2 : (tensor<4xf32>) -> tensor<2xf32> { ^bb0(%part: tensor<2xf32>, %sum: tensor<2xf32>): %n = kiln.add %sum, %part : tensor<2xf32> kiln.yield %n : tensor<2xf32> }`

    Example: `%s = kiln.microbatches sliced(%x) count 2 order <"F0 F1 B0 B1"> : (tensor<4xf32>) -> tensor<2xf32> forward { ^bb0(%part: tensor<2xf32>): %h = kiln.relu %part : tensor<2xf32> kiln.yield %h : tensor<2xf32> } backward { ^bb0(%part: tensor<2xf32>, %h: tensor<2xf32>, %sum: tensor<2xf32>): %n = kiln.add %sum, %h : tensor<2xf32> kiln.yield %n : tensor<2xf32> }`
  }];
  let arguments = (ins Variadic<Kiln_AnyTensor>:$sliced, I64Attr:$count, OptionalAttr<Kiln_OrderAttr>:$order);
  let results = (outs Variadic<Kiln_AnyTensor>:$sums);
  let regions = (region VariadicRegion<SizedRegion<1>>:$segments);
  let assemblyFormat = "`sliced` `(` $sliced `)` `count` $count (`order` $order^)? attr-dict `:` functional-type(operands, results) custom<Segments>($segments)";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns true if the op has the regions `forward` and `backward`.
    bool isDivided() { return getSegments().size() == 2; }
    /// Returns the block of the only region of an op that is not divided.
    ::mlir::Block &getBody() {
      assert(!isDivided());
      return getSegments().front().front();
    }
    ::mlir::Block &getForward() {
      assert(isDivided());
      return getSegments().front().front();
    }
    /// Returns the block that yields the sums: the block of `backward`, or the
    /// only block of an op that is not divided.
    ::mlir::Block &getBackward() { return getSegments().back().front(); }
    /// Returns the values that the forward segment yields, and the arguments of
    /// the backward segment that have these values. Both are empty if the op is
    /// not divided.
    ::mlir::OperandRange getResiduals();
    ::mlir::Block::BlockArgListType getResidualArguments();
    /// Returns the arguments of getBackward() that have the sums over the
    /// micro-batches that were executed before.
    ::mlir::Block::BlockArgListType getSumArguments();
    /// Returns the new sums.
    ::mlir::OperandRange getYieldedSums() {
      return getBackward().getTerminator()->getOperands();
    }
    ::kiln::abi::SegmentOrder getSegmentOrder();
  }];
}
def Kiln_YieldOp : Kiln_Op<"yield", [Pure, Terminator, ReturnLike, 
    DispatchableOpInterface]> {
  let summary = "ends a region and yields its values";
  let description = "The operands are the values that the region passes to the enclosing op.\n\nExample: see `kiln.microbatches`.";
  let arguments = (ins Variadic<Kiln_AnyTensor>:$values);
  let assemblyFormat = "($values^ `:` type($values))? attr-dict";
}
def Kiln_PhaseOp : Kiln_Op<"phase", [Kiln_InProgram, DispatchableOpInterface]> {
  let summary = "marks the beginning of the backward pass";
  let description = [{
    Ops before the marker belong to the forward pass, and ops after it to the
    backward pass. A value that is defined before the marker and used after it is
    a residual.

    Example: `kiln.phase backward`
  }];
  let assemblyFormat = "`backward` attr-dict";
}
def Kiln_RecomputeOp : Kiln_Op<"recompute", [SingleBlock, IsolatedFromAbove, Kiln_InProgram,
    DispatchableOpInterface]> {
  let summary = "repeats forward ops for the backward pass";
  let description = [{
    The body contains clones of ops of the forward pass. Their results are computed
    again, so that they need not be stored until the backward pass. The isolated
    region prevents CSE from merging the clones with the originals. The op is not
    `Pure`, so no pass moves it: the memory plan determines its position.

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
  let summary = "starts an asynchronous copy of a tensor from the device to the host";
  let description = [{
    The copy runs concurrently with the ops that follow. The result is a token with
    exactly one user, a `kiln.copy_wait` in the same block or in the backward segment
    of the same micro-batch (C1). Until that wait, the source must not
    change and the copy must not be read. Copies of one direction run in the order
    of their starts. No pass moves a copy: the memory plan determines its position.
    The types of source and result differ only in the memory (C2).

    Example: `%f = kiln.copy_out %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>`
  }];
}
def Kiln_CopyInOp : Kiln_CopyBegin<"copy_in"> {
  let summary = "starts an asynchronous copy of a tensor from the host to the device";
  let description = "Like `kiln.copy_out`, in the opposite direction.\n\nExample: `%f = kiln.copy_in %h : tensor<4xf32, #kiln.memory<host>> to tensor<4xf32>`";
}
def Kiln_CopyWaitOp : Kiln_CopyOp<"copy_wait", [AllTypesMatch<["token", "y"]>, Kiln_InProgram,
    DeclareOpInterfaceMethods<DispatchableOpInterface, ["getFamily"]>,
    DeclareOpInterfaceMethods<ReferenceOpInterface>]> {
  let summary = "waits until a copy is complete";
  let description = [{
    `token` is the result of a `kiln.copy_out` or `kiln.copy_in` of `source`, or the
    residual with that result (C1). After the wait, the copy can be read and the memory of the
    source can be reused.

    Example: `%h = kiln.copy_wait %f, %x : tensor<4xf32> to tensor<4xf32, #kiln.memory<host>>`
  }];
  let arguments = (ins Kiln_AnyTensor:$token, Kiln_AnyTensor:$source);
  let results = (outs Kiln_AnyTensor:$y);
  let assemblyFormat = "$token `,` $source attr-dict `:` type($source) `to` type($y)";
  let hasVerifier = 1;
}

def Kiln_DispatchOp : Kiln_Op<"dispatch", [SingleBlock, IsolatedFromAbove, Kiln_InProgram,
    DeclareOpInterfaceMethods<GemmOpInterface,
      ["isGemm", "getEpilogueKind", "getMatrix", "getMatrixType", "getEpilogueResults", "getGemmKernel"]>]> {
  let summary = "groups ops that become one generated kernel";
  let description = [{
    The body contains kiln ops of one family. `space` is the iteration space of a
    row dispatch: its numbers of rows and columns. Passes do not move a dispatch.
    It runs on the host if its results are stored there.

    Example: `%y = kiln.dispatch row(%x) space [8, 4] : (tensor<8x4xf32>) -> tensor<8x4xf32> { ^bb0(%a: tensor<8x4xf32>): %b = kiln.relu %a : tensor<8x4xf32> kiln.yield %b : tensor<8x4xf32> }`

    A dispatch of family gemm is a matmul with an *epilogue*: row ops that are
    applied to each tile of the matmul by the thread that computed the tile. The
    body begins with a rank-2 matmul, without `accumulate`, of the first two block
    arguments, which have no other users (E1). `space` is the shape of the matmul
    (E2). Each element of the epilogue depends only on elements at the same
    position, in the same row or in the same column: it has no reductions and no
    gathers (E3). The results are those of the epilogue, followed by the matmul if
    another op reads it (E4). If no other op reads it, one of the results can be
    stored in its place (E5). The epilogue updates no operand in place (E6).

    Example: `%h = kiln.dispatch gemm(%x, %w, %b) space [8, 4] : (tensor<8x2xf32>, tensor<2x4xf32>, tensor<4xf32>) -> tensor<8x4xf32> { ^bb0(%a: tensor<8x2xf32>, %c: tensor<2x4xf32>, %d: tensor<4xf32>): %p = kiln.matmul %a, %c : (tensor<8x2xf32>, tensor<2x4xf32>) -> tensor<8x4xf32> %e = kiln.broadcast %d dims [1] : tensor<4xf32> to tensor<8x4xf32> %s = kiln.add %p, %e : tensor<8x4xf32> kiln.yield %s : tensor<8x4xf32> }`
  }];
  let arguments = (ins StrAttr:$kind, Variadic<Kiln_AnyTensor>:$inputs, OptionalAttr<DenseI64ArrayAttr>:$space);
  let results = (outs Variadic<Kiln_AnyTensor>:$outputs);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "custom<KernelKind>($kind) `(` $inputs `)` (`space` $space^)? attr-dict `:` functional-type(operands, results) $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the family of the dispatch: Row, Gemm or Kernel.
    ::kiln::Family getFamily() { return ::kiln::familyOfKind(getKind()); }
    /// Returns the matmul of a dispatch of the family 'gemm', and null for
    /// dispatches of all other families.
    ::kiln::MatmulOp getMatmul();
    /// Returns true for a dispatch of the family 'gemm' whose last result is
    /// the result of its matmul.
    bool keepsMatmul();
  }];
}

#endif
