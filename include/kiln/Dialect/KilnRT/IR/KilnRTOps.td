//===- KilnRTOps.td - KilnRT operations --------------------*- tablegen -*-===//
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
/// An op that declares an object used by the commands of its program.
class KilnRT_Declaration<string mnemonic, list<Trait> traits = []>
    : KilnRT_Op<mnemonic, [HasParent<"::kiln::rt::ProgramOp">] # traits>;
class KilnRT_Command<string mnemonic, list<Trait> traits = []>
    : KilnRT_Op<mnemonic, [ParentOneOf<["::kiln::rt::ProgramOp", "::kiln::rt::MicrobatchesOp"]>, CommandOpInterface,
        DeclareOpInterfaceMethods<SymbolUserOpInterface>] # traits> {
  /// The last argument of every command.
  dag when = (ins DefaultValuedAttr<KilnRT_WhenAttr, "::kiln::rt::When::Always">:$when);
}

def KilnRT_Slot : TypeDef<KilnRT_Dialect, "Slot"> {
  let mnemonic = "slot";
  let summary = "a planned buffer";
}

def KilnRT_Place : TypeDef<KilnRT_Dialect, "Place"> {
  let mnemonic = "place";
  let summary = "a typed part of a slot";
  let description = "Its shape, strides, element type and memory space are those of the type of the `kilnrt.view` that defines it.";
}

def KilnRT_Token : TypeDef<KilnRT_Dialect, "Token"> {
  let mnemonic = "token";
  let summary = "an event that queues wait for";
}

def KilnRT_ArenaOp : KilnRT_Op<"arena", [HasParent<"::mlir::ModuleOp">]> {
  let summary = "the arenas that all programs share";
  let description = [{
    `states` is the number of bytes of the states, which have the same offsets
    in every program; `height` is the largest extent over all programs, the
    predicted peak. `host_states` and `host_height` are the same for host
    memory. States fit into the height, which is at most 2^48 (C1).

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
    `engine` is the executor of the commands: a `device` executes its kernels
    and vendor library on device memory; the `host` executes code compiled for a
    cpu; a `link` executes transfers, and only transfers are on links (C1).

    Example: `kilnrt.queue @copy_out engine link`
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, KilnRT_EngineAttr:$engine);
  let assemblyFormat = "$sym_name `engine` `` $engine attr-dict";
}

def KilnRT_KernelOp : KilnRT_Op<"kernel", [Symbol, IsolatedFromAbove, SingleBlock, HasParent<"::mlir::ModuleOp">]> {
  let summary = "one distinct kernel";
  let description = [{
    The body is that of the dispatches that use it, except for the attributes
    that launches pass as arguments (see `LaunchArgumentsOpInterface`): an
    integer is replaced by the number of the argument, a floating-point value by
    1. `row_strides` has the pitch, in elements, of every operand and result
    (C1). An `epilogue` works on a tile of its first operand, the result of a
    GEMM. Ops of the kiln dialect compute on tensors, and the body ends in
    `kiln.yield` (C2). The numbers of arguments are dense and less than 64 (C3).
    `family` is `row` for a row program, and otherwise the kernel family of the
    single op in the body (C4).
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, StrAttr:$kind, OptionalAttr<DenseI64ArrayAttr>:$space,
    DenseI64ArrayAttr:$row_strides, UnitAttr:$epilogue);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `family` `` `<` custom<KernelKind>($kind) `>` (`epilogue` $epilogue^)? (`space` $space^)? `row_strides` $row_strides attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns Family::Row for a kernel that is generated from a row program,
    /// and Family::Kernel for a kernel of a single op of another kind.
    ::kiln::Family getFamily() { return ::kiln::familyOfKind(getKind()); }
    /// Returns the op that a kernel of Family::Kernel computes, or null for a
    /// kernel of Family::Row.
    ::kiln::KernelOpInterface getSingleOp();
    /// Returns the types of the arguments that launches pass: i64 or f64.
    ::llvm::SmallVector<::mlir::Type> getArgumentTypes();
    /// Returns the operands, followed by the results.
    ::llvm::SmallVector<::mlir::Value> getParameters();
    unsigned getNumOperandParameters() { return getBody().front().getNumArguments(); }
  }];
}

def KilnRT_ProgramOp : KilnRT_Op<"program", [Symbol, SingleBlock, NoTerminator, HasParent<"::mlir::ModuleOp">]> {
  let summary = "commands in execution order";
  let description = [{
    Slots, tokens, inputs and outputs come first, followed by commands and the
    views that they use. The region has only ops of this dialect and no block
    arguments (C1), and at most one `kilnrt.microbatches` (C2). `kiln.name` is that of `kiln.program`.
  }];
  let arguments = (ins SymbolNameAttr:$sym_name, Kiln_ProgramKindAttr:$kind);
  let regions = (region SizedRegion<1>:$body);
  let assemblyFormat = "$sym_name `kind` `` $kind attr-dict-with-keyword $body";
  let hasRegionVerifier = 1;
}

def KilnRT_SlotOp : KilnRT_Declaration<"slot", [Pure, DeclareOpInterfaceMethods<SymbolUserOpInterface>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "a region of the arena with a lifetime";
  let description = [{
    Commands are numbered in program order; `first` and `last` are the first and
    last command that access the slot. A slot of a state (`state`, C1) is live
    during the whole program. A slot that is accessed both in and outside of
    `kilnrt.microbatches` is live in both segments.

    `ring` is given for values of a micro-batch that are live in both segments,
    if several micro-batches may be in flight: the slot then has an instance
    for each ring slot. Its two numbers are the bytes from one instance to the
    next, which are at least `bytes`, and the number of instances (C3). `bytes`
    and the lifetime are those of an instance. A slot with
    `in host` is in the host arena, otherwise in the device arena. `rows` is
    given for a matrix with padded rows: the bytes of a row and its pitch in
    bytes; the padding holds no values. `why` describes the purpose of the slot
    in reports. `offset` and the bytes of all instances are at most 2^48 (C2).
    `first` and `last` are not negative (C4). A slot with an `owner` exists on the rank
    of data parallelism with this index only: other ranks do not execute the commands
    that access it, except collectives, and slots of different owners may share bytes.

    Example: `%s = kilnrt.slot "h.0.ln_1" class activation offset 64 bytes 128 lifetime [2, 5]`
  }];
  let arguments = (ins StrAttr:$name, KilnRT_SlotClassAttr:$slot_class,
    DefaultValuedAttr<Kiln_MemorySpaceAttr, "::kiln::MemorySpace::Device">:$memory,
    I64Attr:$offset, I64Attr:$bytes, I64Attr:$first, I64Attr:$last,
    OptionalAttr<FlatSymbolRefAttr>:$state,
    OptionalAttr<ConfinedAttr<DenseI64ArrayAttr, [DenseArrayCount<2>]>>:$ring,
    OptionalAttr<ConfinedAttr<DenseI64ArrayAttr, [DenseArrayCount<2>]>>:$rows, OptionalAttr<I64Attr>:$owner,
    OptionalAttr<StrAttr>:$why);
  let results = (outs KilnRT_Slot:$slot);
  let assemblyFormat = [{
    $name `class` custom<SlotClassKind>($slot_class) `` custom<InMemory>($memory) `offset` $offset `bytes` $bytes
    `lifetime` ` ` `[` $first `,` $last `]` (`state` $state^)? (`ring` $ring^)? (`rows` $rows^)? (`owner` $owner^)? (`why` $why^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the bytes from one instance to the next, or 0 without a ring.
    int64_t getRingStride() { return getRing() ? (*getRing())[0] : 0; }
    /// Returns the number of instances, which is 1 without a ring.
    int64_t getInstances() { return getRing() ? (*getRing())[1] : 1; }
    /// Returns the bytes from the first instance to the end of the last one.
    int64_t getTotalBytes() {
      return getRingStride() * (getInstances() - 1) + static_cast<int64_t>(getBytes());
    }
  }];
}

def KilnRT_ViewOp : KilnRT_Op<"view", [Pure, ParentOneOf<["::kiln::rt::ProgramOp", "::kiln::rt::MicrobatchesOp"]>,
    DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "a typed part of a slot";
  let description = [{
    The view begins `offset` bytes after the first byte of the slot, or of its
    instance for the micro-batch that is executed, plus `stride` bytes times the
    number of that micro-batch; outside of micro-batches it has no stride (C1). The type gives its shape, its strides in
    elements, its element type and its memory, which is that of the slot: no
    memory space for device memory, `#kiln.memory<host>` for host memory (C2).
    Extents are positive; the last stride is 1, and every other stride is at
    least the extent of the next dimension times its stride (C3). The view is
    within the slot for every micro-batch (C4).

    Example: `%v = kilnrt.view %s[64 + 128 * microbatch] : memref<4x8xf32, strided<[16, 1]>>`
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
    /// Returns the tensor type with the view's shape and element type.
    ::mlir::RankedTensorType getTensorType();
    ::mlir::Type getElementType() { return getMemRefType().getElementType(); }
    ::kiln::rt::SlotOp getSlotOp();
    /// Returns the row pitch in elements. For a scalar or vector, returns the
    /// number of elements.
    int64_t getRowPitch();
    /// Returns the bytes from the first element to the end of the last one, for
    /// one micro-batch.
    int64_t getExtent();
    /// Returns the offset of the first byte in the arena, for micro-batch 0 in
    /// ring slot 0.
    int64_t getAddress();
    /// Returns true if there is no padding between rows or matrices.
    bool isDense();
    /// Returns true if all rows, across all outer dimensions, have the same
    /// pitch.
    bool hasUniformRows();
    /// Returns true if the functions above may be called: the operand of the
    /// view is the result of a kilnrt.slot, and the view type is a memref with
    /// a supported element type and strides that satisfy C3 (see the
    /// description of the op). The verifiers of ops that use a view call this
    /// function, because they may run before the verifier of the view.
    bool isWellFormed();
  }];
}

def KilnRT_TokenOp : KilnRT_Declaration<"token", [DeclareOpInterfaceMethods<OpAsmOpInterface, ["getAsmResultNames"]>]> {
  let summary = "an event that queues wait for";
  let description = [{
    Commands may signal a token any number of times. A wait waits for the latest
    preceding signal in execution order, which may be for another micro-batch. A
    token with `ring` stands for one token per ring slot: a signal and a wait for
    it concern the micro-batch that is executed.

    Example: `%t = kilnrt.token ring`
  }];
  let arguments = (ins UnitAttr:$ring);
  let results = (outs KilnRT_Token:$token);
  let assemblyFormat = "(`ring` $ring^)? attr-dict";
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
  let summary = "an input that the caller writes before the program runs";
  let description = [{
    The place is in device memory (C1). The role of the input follows from its
    name, or is declared by `fact`, as by `kiln.input` on the arguments of
    `kiln.program` (C2).

    Example: `kilnrt.input "mask" at %mask fact #kiln.input<data, batch_dim = 0>`
  }];
  let assemblyFormat = "$name `at` $place (`fact` $fact^)? attr-dict";
  let extraClassDeclaration = declarations # [{
    /// Returns the attribute `fact`. If the input has no such attribute,
    /// returns the role that its name determines, or null if the name
    /// determines no role.
    ::kiln::InputAttr getInputFact();
  }];
}
def KilnRT_OutputOp : KilnRT_Boundary<"output"> {
  let summary = "an output that the caller reads after the program has run";
  let description = "The place is in device memory (C1). Example: `kilnrt.output \"loss\" at %loss`";
}

def KilnRT_LaunchOp : KilnRT_Command<"launch", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<CommandOpInterface, ["getAccesses"]>]> {
  let summary = "runs a kernel";
  let description = [{
    The places that are read have the types of the kernel's operands, and those
    that are written have the types of its results (C1). `args` are the kernel's
    arguments (C2). `accumulate` is given for a kernel that may add to its
    result. `scratch` is scratch memory of all threads. `group` is the number of
    consecutive launches, from this one on, that a GPU may start as one (see
    `kiln-group-launches`).

    Example: `kilnrt.launch @k on @compute (ro %x, wo %y)`
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$kernel, FlatSymbolRefAttr:$queue, OptionalAttr<FlatSymbolRefArrayAttr>:$after,
    Variadic<KilnRT_Place>:$reads, Variadic<KilnRT_Place>:$writes,
    Optional<KilnRT_Slot>:$scratch, OptionalAttr<ArrayAttr>:$args,
    DefaultValuedAttr<KilnRT_AccumulationAttr, "::kiln::rt::Accumulation::Overwrite">:$accumulate,
    // The number of launches in a group, which runs as one launch. Only the
    // first launch of a group has this attribute.
    OptionalAttr<ConfinedAttr<I64Attr, [IntMinValue<2>]>>:$group), when);
  let assemblyFormat = [{
    $kernel `on` $queue (`after` $after^)? ` ` `` custom<Accesses>($reads, $writes) (`args` $args^)? (`accumulate` `` $accumulate^)?
    (`scratch` `(` $scratch^ `)`)? (`group` $group^)? (`when` `` $when^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the operands `reads`, followed by the operands `writes`.
    ::llvm::SmallVector<::mlir::Value> getPlaces();
    ::kiln::rt::KernelOp getKernelOp();
  }];
}

def KilnRT_GemmOp : KilnRT_Command<"gemm", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<CommandOpInterface, ["getAccesses"]>]> {
  let summary = "vendor-library call: c = op(a) op(b), or c += op(a) op(b)";
  let description = [{
    The matrices are places of rank 2, or of rank 3 with the batch first; op
    transposes a matrix that is `transposed`, and their extents agree (C5). a, b
    and c have the same element type, except that c may be f32 if a and b have a
    narrow float type (C3). c is written (`wo`), added to (`rw`), or, with
    `add_after_first`, written in the first execution of its segment and added to
    in the others.

    `scratch` is scratch memory of the call: on a CPU, the buffers that every
    thread needs to multiply narrow floats or to pack operands; on a GPU, the
    workspace of the vendor library. `grid` is the number of tiles of c, in
    rows and columns, that the threads of a CPU compute, and `kernel` names what
    computes them: `blas`, the default; `avx512`, for operands of f32, f16 or bf16;
    or `amx`, for operands of bf16. Only `blas` can have a library epilogue (C6).

    The thread that computed a tile of c runs the kernel `epilogue` on it. The
    first operand of the kernel is c (C1); its other operands and its results
    are the places after the symbol, and `args` are its arguments. An epilogue
    requires a batch of 1 and overwrites c (C2).

    `library` is the epilogue that the vendor library of a GPU applies to the
    accumulators before it rounds them: `bias` adds the row vector `bias` to
    each row; `gelu_bias` then applies the tanh form of GELU; `gelu_aux_bias`
    also writes the input of GELU to `aux`; `dgelu` multiplies by the derivative
    of GELU at `aux`; `bgrad_a` and `bgrad_b` write the sums of a's rows or b's
    columns to `bias`. `bias` and `aux` have the element type of c and are
    dense; `aux` has the shape of c. A library epilogue requires a batch of 1,
    no `epilogue`, operands of a narrow type or f32, and, with GELU, c of the
    operands' type; it overwrites c (C4).

    Example: `kilnrt.gemm on @compute (ro %a, ro %b, wo %c) grid [1, 1]`
  }];
  let arguments = !con((ins FlatSymbolRefAttr:$queue, OptionalAttr<FlatSymbolRefArrayAttr>:$after, KilnRT_Place:$a, UnitAttr:$trans_a, KilnRT_Place:$b, UnitAttr:$trans_b, KilnRT_Place:$c,
    DefaultValuedAttr<KilnRT_AccumulationAttr, "::kiln::rt::Accumulation::Overwrite">:$accumulate,
    DenseI64ArrayAttr:$grid, OptionalAttr<StrAttr>:$kernel, OptionalAttr<StrAttr>:$library, Optional<KilnRT_Place>:$bias, Optional<KilnRT_Place>:$aux,
    OptionalAttr<FlatSymbolRefAttr>:$epilogue, Variadic<KilnRT_Place>:$epilogue_reads, Variadic<KilnRT_Place>:$epilogue_writes,
    OptionalAttr<ArrayAttr>:$args, Optional<KilnRT_Slot>:$scratch), when);
  let assemblyFormat = [{
    `on` $queue (`after` $after^)? ` ` `(` `ro` $a (`transposed` $trans_a^)? `,` `ro` $b (`transposed` $trans_b^)? `,` custom<Result>($c, $accumulate) `)`
    `grid` $grid (`kernel` $kernel^)? (`library` $library^)? (`bias` `(` $bias^ `)`)? (`aux` `(` $aux^ `)`)?
    (`epilogue` $epilogue^ ` ` `` custom<Accesses>($epilogue_reads, $epilogue_writes))? (`args` $args^)?
    (`scratch` `(` $scratch^ `)`)? (`when` `` $when^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    int64_t getM(); int64_t getN(); int64_t getK(); int64_t getBatch();
    /// Returns the view of a, b or c, for i = 0, 1 or 2.
    ::kiln::rt::ViewOp getMatrix(unsigned i);
    /// Return the row pitch of getMatrix(i), and the stride between consecutive
    /// matrices of its batch, in elements.
    int64_t getLead(unsigned i);
    int64_t getBatchStride(unsigned i);
    /// Return the element type of a and b, and the element type of c.
    ::mlir::Type getElement();
    ::mlir::Type getResultElement();
    /// Returns the epilogue that `library` names; None for an unknown name.
    ::kiln::abi::GemmEpilogue getVendorEpilogue();
    /// Returns the kernel that `kernel` names; Blas for an unknown name.
    ::kiln::abi::GemmKernel getGemmKernel();
  }];
}

class KilnRT_BytesCommand<string mnemonic> : KilnRT_Command<mnemonic, [
    DeclareOpInterfaceMethods<CommandOpInterface, ["getAccesses"]>]> {
  let hasVerifier = 1;
}
def KilnRT_FillOp : KilnRT_BytesCommand<"fill"> {
  let summary = "writes zeros";
  let description = "The place is dense (C1). Example: `kilnrt.fill on @compute (wo %y)`";
  let arguments = !con((ins FlatSymbolRefAttr:$queue, OptionalAttr<FlatSymbolRefArrayAttr>:$after, KilnRT_Place:$to), when);
  let assemblyFormat = "`on` $queue (`after` $after^)? ` ` `(` `wo` $to `)` (`when` `` $when^)? attr-dict";
  let extraClassDeclaration = "int64_t getBytes();";
}
def KilnRT_CopyOp : KilnRT_BytesCommand<"copy"> {
  let summary = "copies bytes";
  let description = [{
    Both places are dense, in the same memory, and of the same size (C1). A copy
    `over` an axis of the mesh copies the shard of this rank: the destination has
    the size of a shard and the element type of the source (C2; see
    `kiln.reduce_scatter`).

    Example: `kilnrt.copy on @compute (ro %x, wo %y)`

    Example: `kilnrt.copy over "dp" on @compute (ro %w, wo %shard)`
  }];
  let arguments = !con((ins OptionalAttr<StrAttr>:$axis, FlatSymbolRefAttr:$queue, OptionalAttr<FlatSymbolRefArrayAttr>:$after, KilnRT_Place:$from, KilnRT_Place:$to), when);
  let assemblyFormat = "(`over` $axis^)? `on` $queue (`after` $after^)? ` ` `(` `ro` $from `,` `wo` $to `)` (`when` `` $when^)? attr-dict";
  let extraClassDeclaration = "int64_t getBytes();";
}
def KilnRT_BeginOp : KilnRT_Command<"begin", [AttrSizedOperandSegments,
    DeclareOpInterfaceMethods<CommandOpInterface, ["getAccesses", "getSignaledToken"]>]> {
  let summary = "begins a transfer and signals a token when it is complete";
  let description = [{
    The places are dense (C1). A `copy` reads one place and writes another of
    the same size in the other memory; a `send` only reads, a `receive` only
    writes. Collectives are `over` an axis of the mesh, which no other kind has, and
    access places in device memory with elements of one type (C2). An `all_reduce`
    reads and writes the same places, with elements of a computed float type: it
    replaces every element by the sum over all ranks of the axis (C3). A
    `reduce_scatter` also reads and writes the places of the tensors that it sums,
    whose contents are undefined afterwards, and then writes as many shards of their
    sums (C4). An `all_gather` reads shards and writes as many whole tensors (C5).
    `owners` are those of the collective (C6; see `kiln.reduce_scatter`). The engine of the queue is `link`. From the begin to the first wait for its token, the
    slots that the transfer accesses are live, nothing writes the bytes it reads, and
    nothing accesses the bytes it writes.

    Example: `kilnrt.begin copy %t on @copy_out after [@compute] (ro %x, wo %h)`
  }];
  let arguments = !con((ins KilnRT_TransferKindAttr:$kind, OptionalAttr<StrAttr>:$axis, KilnRT_Token:$token, FlatSymbolRefAttr:$queue,
    OptionalAttr<FlatSymbolRefArrayAttr>:$after, Variadic<KilnRT_Place>:$reads, Variadic<KilnRT_Place>:$writes,
    OptionalAttr<DenseI64ArrayAttr>:$owners), when);
  let assemblyFormat = "`` $kind (`over` $axis^)? (`owners` $owners^)? $token `on` $queue (`after` $after^)? ` ` `` custom<Accesses>($reads, $writes) (`when` `` $when^)? attr-dict";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Returns the number of bytes that are sent, copied or received. For a
    /// collective, returns the number of bytes of its whole tensors.
    int64_t getBytes();
    /// Returns true for a copy from device memory to host memory.
    bool isOut();
    /// Return the source and the destination of a copy.
    ::kiln::rt::ViewOp getFrom();
    ::kiln::rt::ViewOp getTo();
  }];
}
def KilnRT_WaitOp : KilnRT_Command<"wait", [
    DeclareOpInterfaceMethods<CommandOpInterface, ["getAwaitedToken"]>]> {
  let summary = "blocks queues until the latest signal of a token";
  let description = [{
    Blocks `queue` and the queues in `too`.

    Example: `kilnrt.wait %t on @compute and [@host]`
  }];
  let arguments = !con((ins KilnRT_Token:$token, FlatSymbolRefAttr:$queue, OptionalAttr<FlatSymbolRefArrayAttr>:$too), when);
  let assemblyFormat = "$token `on` $queue (`and` $too^)? (`when` `` $when^)? attr-dict";
  let extraClassDeclaration = [{
    /// Returns `queue`, followed by the queues in `too`.
    ::llvm::SmallVector<::mlir::FlatSymbolRefAttr> getQueues();
  }];
}
def KilnRT_MicrobatchesOp : KilnRT_Declaration<"microbatches", [SingleBlock, NoTerminator]> {
  let summary = "executes the segments of micro-batches in an order";
  let description = [{
    `forward` and `backward` have the commands of the two segments of a micro-batch.
    Each is executed once for each of `count` micro-batches, in the given order
    (C1; see `kiln.microbatches`). `slots` is the number of slots of every ring, at
    least the number of micro-batches in flight (C2): while a micro-batch is in
    flight, it owns the instance of its ring slot of each slot with a ring. The
    regions have only commands and views, and no block arguments (C3).

    A command `when first` or `when last` is executed only in the first or only in
    the last execution of its segment in the order, which need not be that of the
    first or the last micro-batch.

    Example: `kilnrt.microbatches 4 order <"all-forward-first"> slots 4 forward { } backward { }`
  }];
  let arguments = (ins I64Attr:$count, OptionalAttr<Kiln_OrderAttr>:$order, DefaultValuedAttr<I64Attr, "1">:$slots);
  let regions = (region SizedRegion<1>:$forward, SizedRegion<1>:$backward);
  let assemblyFormat = "$count (`order` $order^)? (`slots` $slots^)? attr-dict-with-keyword `forward` $forward `backward` $backward";
  let hasRegionVerifier = 1;
  let extraClassDeclaration = [{
    ::kiln::abi::SegmentOrder getSegmentOrder();
  }];
}

#endif
