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
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "kiln/Dialect/Kiln/IR/KilnAttrs.td"
include "kiln/Dialect/KilnRT/IR/KilnRTAttrs.td"
include "kiln/Dialect/KilnRT/IR/KilnRTInterfaces.td"

class KilnRT_Op<string mnemonic, list<Trait> traits = []> : Op<KilnRT_Dialect, mnemonic, traits>;
/// An op that declares what the commands of its program use.
class KilnRT_Declaration<string mnemonic, list<Trait> traits = []>
    : KilnRT_Op<mnemonic, [HasParent<"::kiln::rt::ProgramOp">] # traits>;
class KilnRT_Command<string mnemonic, list<Trait> traits = []>
    : KilnRT_Op<mnemonic, [ParentOneOf<["::kiln::rt::ProgramOp", "::kiln::rt::LoopOp"]>, CommandOpInterface,
        DeclareOpInterfaceMethods<SymbolUserOpInterface>] # traits>;

def KilnRT_Slot : TypeDef<KilnRT_Dialect, "Slot"> {
  let mnemonic = "slot";
  let summary = "a planned buffer";
}

def KilnRT_Place : TypeDef<KilnRT_Dialect, "Place"> {
  let mnemonic = "place";
  let summary = "a typed part of a slot";
  let description = "Its shape, strides, element type and memory space are the type of the `kilnrt.view` that makes it.";
}

def KilnRT_Token : TypeDef<KilnRT_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "what a queue waits for";
}

def KilnRT_ArenaOp : KilnRT_Op<"arena", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "the block of each memory that all programs share";
  let description = [{
    `states` bytes hold the states, at the same offsets in every program; `height`
    is the largest extent over all programs: the predicted peak. `host_states`
    and `host_height` are the same of host memory. States fit into the height,
    which is at most 2^48 (C1).

    Example: `kilnrt.arena states 1024 height 4096 host states 0 height 512`
  }];
  let arguments = (ins I64Attr:$states, I64Attr:$height, DefaultValuedAttr<I64Attr, "0">:$host_states,
    DefaultValuedAttr<I64Attr, "0">:$host_height);
  let assemblyFormat = "`states` $states `height` $height `` custom<HostArena>($host_states, $host_height) attr-dict";
  let hasVerifier = 1;
}

def KilnRT_QueueOp : KilnRT_Op<"queue", [Symbol, HasParent<"::mlir::ModuleOp">]> {
  let summary = "executes commands one after another";
  let description = [{
    `engine` says what executes the commands of the queue: a `device` executes its
    kernels and vendor library, on device memory; the `host` executes code compiled for
    a cpu; a `link` executes transfers, and only transfers are on links (C1).

    Example: `kilnrt.queue @copy_out engine link`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, KilnRT_EngineAttr:$engine);
  let assemblyFormat = "$sym_name `engine` `` $engine attr-dict";
}

def KilnRT_KernelOp : KilnRT_Op<"kernel", [Symbol, IsolatedFromAbove, SingleBlock, HasParent<"::mlir::ModuleOp">]> {
  let summary = "one distinct kernel";
  let description = [{
    The body is that of the dispatches that it serves, but for the attributes that
    launches pass as arguments (see `LaunchArgumentsOpInterface`): an integer is
    replaced by the argument's number, a real by 1. `row_strides` has, for every
    operand and result, the elements from one row to the next (C1). An `epilogue`
    works on a tile of its first operand, the result of a gemm. Ops of the kiln
    dialect compute on tensors, and the body ends in `kiln.yield` (C2). The numbers
    of arguments are dense and fewer than 64 (C3).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Kiln_FamilyAttr:$family, OptionalAttr<DenseI64ArrayAttr>:$space,
    DenseI64ArrayAttr:$row_strides, UnitAttr:$epilogue);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `family` `` $family (`epilogue` $epilogue^)? (`space` $space^)? `row_strides` $row_strides attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// The types of the arguments that launches pass: i64 or f64.
    ::llvm::SmallVector<::mlir::Type> getArgumentTypes();
    /// Operands, then results.
    ::llvm::SmallVector<::mlir::Value> getParameters();
    unsigned getNumOperandParameters() { return getBody().front().getNumArguments(); }
  }];
}

def KilnRT_ProgramOp : KilnRT_Op<"program", [Symbol, SingleBlock, NoTerminator, HasParent<"::mlir::ModuleOp">]> {
  let summary = "commands in execution order";
  let description = [{
    Slots, tokens, inputs and outputs first, then commands and the views that they
    use: ops of this dialect alone, without block arguments (C1). `kiln.name` is
    that of `kiln.program`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Kiln_ProgramKindAttr:$kind);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `kind` `` $kind attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def KilnRT_SlotOp : KilnRT_Declaration<"slot", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "a place in the arena with a lifetime";
  let description = [{
    Commands are numbered in order, loops counting at their begin and end;
    `first` and `last` are the first and last command that touch the slot. A
    slot of a state (`state`, C1) lives for ever. `in host` is in the host's arena;
    without it, the slot is in the device's. `rows` is given for a matrix with padded
    rows: the bytes of a row, and those from one row to the next; the padding holds no
    value. `why` tells people what the slot is for. `offset` and `bytes` are at most
    2^48 (C2).

    Example: `%s = kilnrt.slot "h.0.ln_1" class activation offset 64 bytes 128 lifetime [2, 5]`
  }];
  let arguments = (ins StrAttr:$name, KilnRT_SlotClassAttr:$slot_class,
    DefaultValuedAttr<Kiln_MemorySpaceAttr, "::kiln::MemorySpace::Device">:$memory,
    I64Attr:$offset, I64Attr:$bytes, I64Attr:$first, I64Attr:$last,
    OptionalAttr<FlatSymbolRefAttr>:$state,
    OptionalAttr<ConfinedAttr<DenseI64ArrayAttr, [DenseArrayCount<2>]>>:$rows, OptionalAttr<StrAttr>:$why);
  let results = (outs KilnRT_Slot:$slot);
  let assemblyFormat = [{
    $name `class` custom<SlotClassKind>($slot_class) `` custom<InMemory>($memory) `offset` $offset `bytes` $bytes
    `lifetime` ` ` `[` $first `,` $last `]` (`state` $state^)? (`rows` $rows^)? (`why` $why^)? attr-dict
  }];
  let hasVerifier = 1;
}

def KilnRT_ViewOp : KilnRT_Op<"view", [Pure, ParentOneOf<["::kiln::rt::ProgramOp", "::kiln::rt::LoopOp"]>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "a typed part of a slot";
  let description = [{
    The part begins `offset` bytes after the slot's first byte, and moves on by
    `stride` bytes with every iteration of the enclosing loop; outside of a loop it
    has no stride (C1). The type gives its shape, its strides in elements, its element
    type and its memory: no memory space for the device's, `#kiln.memory<host>` for the
    host's, as the slot is in (C2). Extents are positive; the last
    stride is 1, and every other one is at least the extent of the next dimension times
    its stride (C3). The part is in the slot in every iteration (C4).

    Example: `%v = kilnrt.view %s[64 + 128 * iteration] : memref<4x8xf32, strided<[16, 1]>>`
  }];
  let arguments = (ins KilnRT_Slot:$slot, I64Attr:$offset, DefaultValuedAttr<I64Attr, "0">:$stride, TypeAttrOf<AnyStaticShapeMemRef>:$view_type);
  let results = (outs KilnRT_Place:$place);
  let assemblyFormat = "$slot `[` custom<ViewOffset>($offset, $stride) `]` `:` $view_type attr-dict";
  let hasVerifier = 1;
  let builders = [OpBuilder<(ins "::mlir::Value":$slot, "int64_t":$offset, "int64_t":$stride, "::mlir::MemRefType":$type), [{
    build($_builder, $_state, PlaceType::get($_builder.getContext()), slot, static_cast<uint64_t>(offset), static_cast<uint64_t>(stride), type);
  }]>];
  let extraClassDeclaration = [{
    ::mlir::MemRefType getMemRefType() { return ::llvm::cast<::mlir::MemRefType>(getViewType()); }
    /// The value's shape and element type.
    ::mlir::RankedTensorType getTensorType();
    ::mlir::Type getElementType() { return getMemRefType().getElementType(); }
    ::kiln::rt::SlotOp getSlotOp();
    /// Elements from one row to the next; of a scalar or vector, all of them.
    int64_t getRowPitch();
    /// Bytes from the first element to the end of the last one, in one iteration.
    int64_t getExtent();
    /// The first byte in the arena, in the first iteration.
    int64_t getAddress();
    /// True if there is no byte between two rows or matrices that belongs to neither.
    bool isDense();
    /// True if consecutive rows have one pitch, across all outer dimensions.
    bool hasUniformRows();
    /// True if the functions above may be called: the type is a memref of elements that
    /// a place may hold, with strides as in C3, on a slot. Verifiers of ops that use
    /// the view ask this, as they may run before its own.
    bool isWellFormed();
  }];
}

def KilnRT_TokenOp : KilnRT_Declaration<"token", [DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "what queues wait for";
  let description = [{
    Commands signal it any number of times; a wait is for the latest signal before it in
    execution order, be it of an earlier iteration of a loop.

    Example: `%t = kilnrt.token`
  }];
  let results = (outs KilnRT_Token:$token);
  let assemblyFormat = "attr-dict";
}

class KilnRT_Boundary<string mnemonic, dag more = (ins)> : KilnRT_Declaration<mnemonic> {
  let arguments = !con((ins StrAttr:$name, KilnRT_Place:$place), more);
  let assemblyFormat = "$name `at` $place attr-dict";
  let hasVerifier = 1;
  code declarations = [{
    ::kiln::rt::ViewOp getView();
    ::mlir::RankedTensorType getTensorType();
  }];
  let extraClassDeclaration = declarations;
}
def KilnRT_InputOp : KilnRT_Boundary<"input", (ins OptionalAttr<Kiln_InputAttr>:$fact)> {
  let summary = "what the caller writes before the program runs";
  let description = [{
    The place is in device memory (C1). What the input is for follows from its name, or
    `fact` says it, as `kiln.input` does on the arguments of `kiln.program` (C2).

    Example: `kilnrt.input "mask" at %mask fact #kiln.input<data, batch_dim = 0>`
  }];
  let assemblyFormat = "$name `at` $place (`fact` $fact^)? attr-dict";
  let extraClassDeclaration = declarations # [{
    /// What the input is for, or null.
    ::kiln::InputAttr getInputFact();
  }];
}
def KilnRT_OutputOp : KilnRT_Boundary<"output"> {
  let summary = "what the caller reads after the program ran";
  let description = "The place is in device memory (C1). Example: `kilnrt.output \"loss\" at %loss`";
}

def KilnRT_LaunchOp : KilnRT_Command<"launch", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<CommandOpInterface, ["getAccesses"]>]> {
  let summary = "runs a kernel";
  let description = [{
    The places that it reads have the types of the kernel's operands, those that it
    writes have the types of its results (C1). `args` are the kernel's arguments (C2).
    `accumulate` is given for a kernel that may add to its result. `scratch` is memory
    for every thread. `group`: a GPU may start this launch and the ones after it, so
    many in all, as one (see `kiln-group-launches`).

    Example: `kilnrt.launch @k on @compute (ro %x, wo %y)`
  }];
  let arguments = (ins FlatSymbolRefAttr:$kernel, FlatSymbolRefAttr:$queue, OptionalAttr<FlatSymbolRefArrayAttr>:$after,
    Variadic<KilnRT_Place>:$reads, Variadic<KilnRT_Place>:$writes,
    Optional<KilnRT_Slot>:$scratch, OptionalAttr<ArrayAttr>:$args,
    DefaultValuedAttr<KilnRT_AccumulationAttr, "::kiln::rt::Accumulation::Overwrite">:$accumulate,
    // Of a group, the first launch has the number of its launches.
    OptionalAttr<ConfinedAttr<I64Attr, [IntMinValue<2>]>>:$group);
  let assemblyFormat = [{
    $kernel `on` $queue (`after` $after^)? ` ` `` custom<Accesses>($reads, $writes) (`args` $args^)? (`accumulate` `` $accumulate^)?
    (`scratch` `(` $scratch^ `)`)? (`group` $group^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The places that are read, then those that are written.
    ::llvm::SmallVector<::mlir::Value> getPlaces();
    ::kiln::rt::KernelOp getKernelOp();
  }];
}

def KilnRT_GemmOp : KilnRT_Command<"gemm", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<CommandOpInterface, ["getAccesses"]>]> {
  let summary = "vendor-library call: c = op(a) op(b), or c += op(a) op(b)";
  let description = [{
    The matrices are places of rank 2, or of rank 3 with the batch first; op transposes a
    matrix that is `transposed`, and their extents agree (C5). a and b have one element
    type, which is that of c, too, unless they are of a narrow float type and c is f32 (C3). c is
    written (`wo`), added to (`rw`), or, with `add_after_first`, written in the first
    iteration of the enclosing loop and added to in the others.

    `scratch` is memory for the call: on a cpu what every thread needs to multiply
    narrow floats, on a gpu what the library may use. `grid` are the tiles of c, in rows and
    columns, that threads of a cpu compute.

    The thread that computed a tile of c runs the kernel `epilogue` on it. The
    kernel's first operand is c (C1), its others and its results are the places after
    it, and `args` are its arguments. It needs a batch of 1 and overwrites c (C2).

    `library` names what the library of a gpu does with the sums before it rounds
    them: `bias` adds a row `bias` to each, `gelu_bias` takes gelu's tanh form of
    that, `gelu_aux_bias` also writes what it takes it of to `aux`, `dgelu`
    multiplies by gelu's derivative at `aux`, `bgrad_a` and `bgrad_b` write the sums
    of a's rows or b's columns to `bias`. Both have the type of c and are dense; aux
    has its shape. It needs a batch of 1, no `epilogue`, operands of a narrow type or
    f32, and c of their type where gelu is taken; it overwrites c (C4).

    Example: `kilnrt.gemm on @compute (ro %a, ro %b, wo %c) grid [1, 1]`
  }];
  let arguments = (ins FlatSymbolRefAttr:$queue, OptionalAttr<FlatSymbolRefArrayAttr>:$after, KilnRT_Place:$a, UnitAttr:$trans_a, KilnRT_Place:$b, UnitAttr:$trans_b, KilnRT_Place:$c,
    DefaultValuedAttr<KilnRT_AccumulationAttr, "::kiln::rt::Accumulation::Overwrite">:$accumulate,
    DenseI64ArrayAttr:$grid, OptionalAttr<StrAttr>:$library, Optional<KilnRT_Place>:$bias, Optional<KilnRT_Place>:$aux,
    OptionalAttr<FlatSymbolRefAttr>:$epilogue, Variadic<KilnRT_Place>:$epilogue_reads, Variadic<KilnRT_Place>:$epilogue_writes,
    OptionalAttr<ArrayAttr>:$args, Optional<KilnRT_Slot>:$scratch);
  let assemblyFormat = [{
    `on` $queue (`after` $after^)? ` ` `(` `ro` $a (`transposed` $trans_a^)? `,` `ro` $b (`transposed` $trans_b^)? `,` custom<Result>($c, $accumulate) `)`
    `grid` $grid (`library` $library^)? (`bias` `(` $bias^ `)`)? (`aux` `(` $aux^ `)`)?
    (`epilogue` $epilogue^ ` ` `` custom<Accesses>($epilogue_reads, $epilogue_writes))? (`args` $args^)?
    (`scratch` `(` $scratch^ `)`)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getM(); int64_t getN(); int64_t getK(); int64_t getBatch();
    /// The views of a, b and c.
    ::kiln::rt::ViewOp getMatrix(unsigned i);
    /// Elements from one row to the next, and from one matrix to the next, of a, b or c.
    int64_t getLead(unsigned i);
    int64_t getBatchStride(unsigned i);
    /// The element types of a and b, and of c.
    ::mlir::Type getElement();
    ::mlir::Type getResultElement();
    /// What `library` names; an unknown name counts as none.
    ::kiln::abi::GemmEpilogue getVendorEpilogue();
  }];
}

class KilnRT_BytesCommand<string mnemonic> : KilnRT_Command<mnemonic, [
    DeclareOpInterfaceMethods<CommandOpInterface, ["getAccesses"]>]> {
  let hasVerifier = 1;
}
def KilnRT_FillOp : KilnRT_BytesCommand<"fill"> {
  let summary = "writes zeros";
  let description = "The place is dense (C1). Example: `kilnrt.fill on @compute (wo %y)`";
  let arguments = (ins FlatSymbolRefAttr:$queue, OptionalAttr<FlatSymbolRefArrayAttr>:$after, KilnRT_Place:$to);
  let assemblyFormat = "`on` $queue (`after` $after^)? ` ` `(` `wo` $to `)` attr-dict";
  let extraClassDeclaration = "int64_t getBytes();";
}
def KilnRT_CopyOp : KilnRT_BytesCommand<"copy"> {
  let summary = "copies bytes";
  let description = [{
    Both places are dense, in one memory, and of as many bytes (C1).

    Example: `kilnrt.copy on @compute (ro %x, wo %y)`
  }];
  let arguments = (ins FlatSymbolRefAttr:$queue, OptionalAttr<FlatSymbolRefArrayAttr>:$after, KilnRT_Place:$from, KilnRT_Place:$to);
  let assemblyFormat = "`on` $queue (`after` $after^)? ` ` `(` `ro` $from `,` `wo` $to `)` attr-dict";
  let extraClassDeclaration = "int64_t getBytes();";
}
def KilnRT_BeginOp : KilnRT_Command<"begin", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<CommandOpInterface, ["getAccesses", "getSignaledToken"]>]> {
  let summary = "begins a transfer and signals a token when it is over";
  let description = [{
    The places are dense (C1). A `copy` reads one place and writes another of as many
    bytes in the other memory; a `send` reads, a `receive` writes (C2). The queue's
    engine is `link`. From the beginning to the first wait for its token, the slots that
    the transfer touches live, nothing writes what it reads, and nothing touches what it
    writes.

    Example: `kilnrt.begin copy %t on @copy_out after [@compute] (ro %x, wo %h)`
  }];
  let arguments = (ins KilnRT_TransferKindAttr:$kind, KilnRT_Token:$token, FlatSymbolRefAttr:$queue,
    OptionalAttr<FlatSymbolRefArrayAttr>:$after, Variadic<KilnRT_Place>:$reads, Variadic<KilnRT_Place>:$writes);
  let assemblyFormat = "`` $kind $token `on` $queue (`after` $after^)? ` ` `` custom<Accesses>($reads, $writes) attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Bytes that are sent, copied or received.
    int64_t getBytes();
    /// True for a copy from the device's memory to the host's.
    bool isOut();
    /// A copy's source and destination.
    ::kiln::rt::ViewOp getFrom();
    ::kiln::rt::ViewOp getTo();
  }];
}
def KilnRT_WaitOp : KilnRT_Command<"wait", [
    DeclareOpInterfaceMethods<CommandOpInterface, ["getAwaitedToken"]>]> {
  let summary = "holds up queues until a token's latest signal has happened";
  let description = [{
    `queue` and the queues of `too` wait.

    Example: `kilnrt.wait %t on @compute and [@host]`
  }];
  let arguments = (ins KilnRT_Token:$token, FlatSymbolRefAttr:$queue, OptionalAttr<FlatSymbolRefArrayAttr>:$too);
  let assemblyFormat = "$token `on` $queue (`and` $too^)? attr-dict";
  let extraClassDeclaration = [{
    /// All queues that wait.
    ::llvm::SmallVector<::mlir::FlatSymbolRefAttr> getQueues();
  }];
}
def KilnRT_LoopOp : KilnRT_Declaration<"loop", [SingleBlock, NoTerminator]> {
  let summary = "repeats its commands";
  let description = [{
    At least once (C1). It has commands and views alone, and no block arguments (C2).

    Example: `kilnrt.loop 4 { }`
  }];
  let arguments = (ins I64Attr:$count);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$count attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

#endif
