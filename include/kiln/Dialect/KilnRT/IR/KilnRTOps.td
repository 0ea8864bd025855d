//===- KilnRTOps.td - the scheduled level ------------------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILNRT_IR_KILNRTOPS_TD
#define KILN_DIALECT_KILNRT_IR_KILNRTOPS_TD

include "mlir/IR/OpBase.td"
include "mlir/IR/AttrTypeBase.td"
include "mlir/IR/BuiltinAttributes.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/KilnRT/IR/KilnRTAttrs.td"

class KilnRT_Op<string mnemonic, list<Trait> traits = []> : Op<KilnRT_Dialect, mnemonic, traits>;
/// An op that declares what the commands of its program use.
class KilnRT_Declaration<string mnemonic, list<Trait> traits = []>
    : KilnRT_Op<mnemonic, [HasParent<"::kiln::rt::ProgramOp">] # traits>;
class KilnRT_Command<string mnemonic, list<Trait> traits = []>
    : KilnRT_Op<mnemonic, [ParentOneOf<["::kiln::rt::ProgramOp", "::kiln::rt::LoopOp"]>] # traits>;

def KilnRT_Slot : TypeDef<KilnRT_Dialect, "Slot"> {
  let mnemonic = "slot";
  let summary = "a planned buffer";
}

def KilnRT_Token : TypeDef<KilnRT_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "a copy under way";
}

def KilnRT_ArenaOp : KilnRT_Op<"arena", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "the block of memory on each side that all programs share";
  let description = [{
    `states` bytes hold the states, at the same offsets in every program; `height`
    is the largest extent over all programs: the predicted peak. `host_states`
    and `host_height` are the same of host memory. States fit into the height,
    which is at most 2^48 (C1).

    Example: `kilnrt.arena states 1024 height 4096`
  }];
  let arguments = (ins I64Attr:$states, I64Attr:$height, DefaultValuedAttr<I64Attr, "0">:$host_states,
    DefaultValuedAttr<I64Attr, "0">:$host_height);
  let assemblyFormat = "`states` $states `height` $height attr-dict";
  let hasVerifier = 1;
}

def KilnRT_KernelOp : KilnRT_Op<"kernel", [Symbol, IsolatedFromAbove, SingleBlock, HasParent<"::mlir::ModuleOp">]> {
  let summary = "one distinct kernel";
  let description = [{
    The body is that of the dispatches that it serves, with RNG keys replaced by
    their place among the launch's immediates. `row_strides` has, for every operand and result, the elements
    from one row to the next (C1). An `epilogue` works on a tile of its first operand, a product.
    Ops of the kiln dialect compute on tensors, and the body ends in `kiln.yield` (C2).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Kiln_FamilyAttr:$family, OptionalAttr<DenseI64ArrayAttr>:$space,
    DenseI64ArrayAttr:$row_strides, UnitAttr:$epilogue);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def KilnRT_ProgramOp : KilnRT_Op<"program", [Symbol, SingleBlock, NoTerminator, HasParent<"::mlir::ModuleOp">]> {
  let summary = "commands in execution order";
  let description = [{
    Slots, inputs and outputs first, then commands: ops of this dialect alone,
    without block arguments (C1). `kiln.name` is that of `kiln.program`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Kiln_ProgramKindAttr:$kind);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def KilnRT_SlotOp : KilnRT_Declaration<"slot", [Pure,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a place in the arena with a lifetime";
  let description = [{
    Commands are numbered in order, loops counting at their begin and end;
    `first` and `last` are the first and last command that touch the slot. A
    slot of a state (`state`, C1) lives for ever. A `host` slot lies in the host's arena.
    `rows`, where a matrix has gaps between its rows: the bytes of a row, and those
    from one row to the next. What is in the gaps is no value. `offset` and `bytes`
    are at most 2^48 (C2).

    Example: `%s = kilnrt.slot "h.0.ln_1" class activation offset 64 bytes 128 lifetime [2, 5]`
  }];
  let arguments = (ins StrAttr:$name, KilnRT_SlotClassAttr:$slot_class, I64Attr:$offset, I64Attr:$bytes, I64Attr:$first, I64Attr:$last,
    OptionalAttr<FlatSymbolRefAttr>:$state, OptionalAttr<StrAttr>:$why, UnitAttr:$host,
    OptionalAttr<ConfinedAttr<DenseI64ArrayAttr, [DenseArrayCount<2>]>>:$rows);
  let results = (outs KilnRT_Slot:$slot);
  let assemblyFormat = "$name `class` custom<SlotClassKind>($slot_class) `offset` $offset `bytes` $bytes `lifetime` `[` $first `,` $last `]` (`state` $state^)? attr-dict";
  let hasVerifier = 1;
}

class KilnRT_Boundary<string mnemonic, dag more = (ins)> : KilnRT_Declaration<mnemonic> {
  let arguments = !con((ins StrAttr:$name, KilnRT_Slot:$slot, I64Attr:$offset, TypeAttrOf<Kiln_AnyTensor>:$type), more);
  let assemblyFormat = "$name `at` $slot `+` $offset `:` $type attr-dict";
  let hasVerifier = 1;
}
def KilnRT_InputOp : KilnRT_Boundary<"input", (ins OptionalAttr<Kiln_InputAttr>:$fact)> {
  let summary = "what the caller writes before the program runs";
  let description = [{
    On the device (C1). What the input is for follows from its name, or `fact` says
    it, as `kiln.input` does on the arguments of `kiln.program` (C2).

    Example: `kilnrt.input "mask" at %s + 0 : tensor<4x64xf32> fact #kiln.input<data, batch_dim = 0>`
  }];
  let assemblyFormat = "$name `at` $slot `+` $offset `:` $type (`fact` $fact^)? attr-dict";
  let extraClassDeclaration = [{
    /// What the input is for, or null.
    ::kiln::InputAttr getInputFact();
  }];
}
def KilnRT_OutputOp : KilnRT_Boundary<"output"> {
  let summary = "what the caller reads after the program ran";
  let description = "On the device (C1). Example: `kilnrt.output \"loss\" at %s + 0 : tensor<f64>`";
}

def KilnRT_LaunchOp : KilnRT_Command<"launch", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "runs a kernel";
  let description = [{
    `slots`: operands, then results, with `offsets` and loop `strides` in bytes.
    `immediates` are passed to the kernel. `scratch` is memory for every thread.
    `group`: a GPU may start this launch and the ones after it, so many in all, as
    one (see `kiln-group-launches`).

    Example: `kilnrt.launch @k(%a, %b) offsets [0, 0] strides [0, 0] immediates []`
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, Variadic<KilnRT_Slot>:$slots, Optional<KilnRT_Slot>:$scratch,
    DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides, DenseI64ArrayAttr:$immediates,
    // The micro-batch index is passed as a further immediate: nonzero means "add to the result".
    UnitAttr:$accumulates,
    // Of a group, the first launch has the number of its launches.
    OptionalAttr<ConfinedAttr<I64Attr, [IntMinValue<2>]>>:$group);
  let assemblyFormat = "$kernel `(` $slots `)` (`scratch` `(` $scratch^ `)`)? `offsets` $offsets `strides` $strides `immediates` $immediates (`accumulates` $accumulates^)? (`group` $group^)? attr-dict";
  let hasVerifier = 1;
}

def KilnRT_GemmOp : KilnRT_Command<"gemm", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "library call: c = op(a) op(b) + beta c";
  let description = [{
    Extents, leading dimensions and batch strides in elements. `beta`: 0, 1, or 2
    for "0 in the first iteration of the enclosing loop, then 1". `element` is the
    type of all three matrices; with `wide`, c is f32 and a and b are bf16 (C3).
    Extents are positive, a matrix of the batch has at most 2^48 elements, and no
    stride is negative (C5).

    `scratch` is memory for the call: on a cpu what every thread needs to multiply
    bf16, on a gpu what the library may use.

    The thread that computed a tile of c runs the kernel `epilogue` on it. The
    kernel's first operand is c (C1), its others and its results are
    `epilogue_slots`, whose `offsets` and `strides` follow those of a, b and c.
    It needs a batch of 1 and beta 0 (C2).

    `library` names what the library of a gpu does with the sums before it rounds
    them: `bias` adds a row `bias` to each, `gelu_bias` takes gelu's tanh form of
    that, `gelu_aux_bias` also writes what it takes it of to `aux`, `dgelu`
    multiplies by gelu's derivative at `aux`, `bgrad_a` and `bgrad_b` write the sums
    of a's rows or b's columns to `bias`. Both have the type of c and are dense; aux
    has its shape. Their offsets and strides follow those of c. It needs a batch of
    1, beta 0, no `epilogue`, operands of bf16 or f32, and c of their type where gelu
    is taken (C4).

    Example: `kilnrt.gemm(%a, %b, %c) offsets [0, 0, 0] strides [0, 0, 0] {m = 4, n = 4, k = 4, batch = 1, lead = array<i64: 4, 4, 4>, batch_strides = array<i64: 0, 0, 0>, beta = 0, grid = array<i64: 1, 1>, element = f32}`
  }];
  let arguments = (ins KilnRT_Slot:$a, KilnRT_Slot:$b, KilnRT_Slot:$c, Optional<KilnRT_Slot>:$scratch,
    Optional<KilnRT_Slot>:$bias, Optional<KilnRT_Slot>:$aux, Variadic<KilnRT_Slot>:$epilogue_slots, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides,
    I64Attr:$m, I64Attr:$n, I64Attr:$k, I64Attr:$batch, DenseI64ArrayAttr:$lead, DenseI64ArrayAttr:$batch_strides, UnitAttr:$trans_a, UnitAttr:$trans_b,
    I64Attr:$beta, DenseI64ArrayAttr:$grid, TypeAttrOf<AnyTypeOf<[BF16, F32, F64]>>:$element, UnitAttr:$wide,
    OptionalAttr<StrAttr>:$library, OptionalAttr<FlatSymbolRefAttr>:$epilogue, OptionalAttr<DenseI64ArrayAttr>:$immediates);
  let assemblyFormat = "`(` $a `,` $b `,` $c `)` (`scratch` `(` $scratch^ `)`)? (`library` $library^)? (`bias` `(` $bias^ `)`)? (`aux` `(` $aux^ `)`)? (`epilogue` $epilogue^ `(` $epilogue_slots `)` `immediates` $immediates)? `offsets` $offsets `strides` $strides attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The element type of c.
    ::mlir::Type getResultElement();
    /// What `library` names; an unknown name counts as none.
    ::kiln::abi::GemmEpilogue getLibraryEpilogue();
  }];
}

def KilnRT_FillOp : KilnRT_Command<"fill"> {
  let summary = "writes zeros";
  let description = "Example: `kilnrt.fill %s offset 0 bytes 64`";
  let arguments = (ins KilnRT_Slot:$slot, I64Attr:$offset, I64Attr:$bytes);
  let assemblyFormat = "$slot `offset` $offset `bytes` $bytes attr-dict";
}
def KilnRT_CopyOp : KilnRT_Command<"copy"> {
  let summary = "copies bytes";
  let description = "Within one memory (C1). Example: `kilnrt.copy %a to %b offsets [0, 0] strides [0, 0] bytes 64`";
  let arguments = (ins KilnRT_Slot:$from, KilnRT_Slot:$to, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides, I64Attr:$bytes);
  let assemblyFormat = "$from `to` $to `offsets` $offsets `strides` $strides `bytes` $bytes attr-dict";
  let hasVerifier = 1;
}
def KilnRT_CopyStartOp : KilnRT_Command<"copy_start"> {
  let summary = "begins to copy bytes between device and host";
  let description = [{
    Copies of one direction are done one by one in the order of their beginnings,
    beside the commands that follow. Exactly one side is a `host` slot (C1). Both
    slots live to the wait.

    Example: `%t = kilnrt.copy_start %a to %b offsets [0, 0] strides [0, 0] bytes 64`
  }];
  let arguments = (ins KilnRT_Slot:$from, KilnRT_Slot:$to, DenseI64ArrayAttr:$offsets, DenseI64ArrayAttr:$strides, I64Attr:$bytes);
  let results = (outs KilnRT_Token:$token);
  let assemblyFormat = "$from `to` $to `offsets` $offsets `strides` $strides `bytes` $bytes attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// From the device to the host.
    bool isOut();
    ::kiln::rt::WaitOp getWait();
  }];
}
def KilnRT_WaitOp : KilnRT_Command<"wait"> {
  let summary = "waits for the end of a copy";
  let description = "The token is that of a `kilnrt.copy_start` (C1). Example: `kilnrt.wait %t`";
  let arguments = (ins KilnRT_Token:$token);
  let assemblyFormat = "$token attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{ ::kiln::rt::CopyStartOp getStart(); }];
}
def KilnRT_LoopOp : KilnRT_Declaration<"loop", [SingleBlock, NoTerminator]> {
  let summary = "repeats its commands";
  let description = [{
    At least once (C1). It has commands alone, and no block arguments (C2).

    Example: `kilnrt.loop 4 { }`
  }];
  let arguments = (ins I64Attr:$count);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

#endif
