//===- KilnAttrs.td - kiln attributes and enums ------------*- tablegen -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_IR_KILNATTRS_TD
#define KILN_DIALECT_KILN_IR_KILNATTRS_TD

include "kiln/Dialect/Kiln/IR/KilnBase.td"
include "kiln/Dialect/Kiln/IR/KilnEncodings.td"
include "kiln/Dialect/Kiln/IR/KilnPlanAttrs.td"
include "mlir/IR/TensorEncoding.td"

class Kiln_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::kiln";
  let genSpecializedAttr = 0;
}
class Kiln_EnumAttr<EnumInfo info, string mnemonic, list<Trait> traits = []>
    : EnumAttr<Kiln_Dialect, info, mnemonic, traits> {
  let assemblyFormat = "`<` $value `>`";
}

def Kiln_Role : Kiln_Enum<"Role", "the role of a state", [
  I32EnumAttrCase<"Parameter", 0, "parameter">,
  I32EnumAttrCase<"Buffer", 1, "buffer">,
  I32EnumAttrCase<"Constant", 2, "constant">,
  I32EnumAttrCase<"Optimizer", 3, "optimizer">,
  I32EnumAttrCase<"Mirror", 4, "mirror">]>;      // copy of a parameter with another element type or in another memory
def Kiln_RoleAttr : Kiln_EnumAttr<Kiln_Role, "role">;

def Kiln_Collective : Kiln_Enum<"Collective", "what ranks compute together", [
  I32EnumAttrCase<"AllReduce", 0, "all_reduce">,          // the sum of a tensor, on all ranks
  I32EnumAttrCase<"ReduceScatter", 1, "reduce_scatter">,  // the sum of a tensor, a shard on each rank
  I32EnumAttrCase<"AllGather", 2, "all_gather">]>;        // a tensor, from a shard on each rank
def Kiln_CollectiveAttr : EnumAttr<Kiln_Dialect, Kiln_Collective, "collective">;

def Kiln_Residency : Kiln_Enum<"Residency", "the place of a state that is not stored on the device alone", [
  I32EnumAttrCase<"Host", 0, "host">,                       // on the host; the device copies it for every use
  I32EnumAttrCase<"UpdatedOnHost", 1, "updated_on_host">,   // like `host`, and the host updates it
  // Updated on the host; the device has a copy, which is a state of the role
  // `mirror`.
  I32EnumAttrCase<"Mirrored", 2, "mirrored">]>;
def Kiln_ResidencyAttr : Kiln_EnumAttr<Kiln_Residency, "residency"> {
  let description = [{
    The value of the attribute `kiln.residency` of a `kiln.state`, which
    `kiln-offload-states` reads. A state without it stays on the device. The
    optimizer states of a parameter that the host updates are on the host.
  }];
}

def Kiln_Reduction : Kiln_Enum<"Reduction", "the function that combines elements", [
  I32EnumAttrCase<"Sum", 0, "sum">,
  I32EnumAttrCase<"Mean", 1, "mean">,
  I32EnumAttrCase<"Max", 2, "max">]>;
def Kiln_ReductionAttr : Kiln_EnumAttr<Kiln_Reduction, "reduction">;

def Kiln_Family : Kiln_Enum<"Family", "the form of an op in a schedule", [
  I32EnumAttrCase<"Row", 0, "row">,              // row program: elementwise, norms, losses, gathers, updates
  I32EnumAttrCase<"Gemm", 1, "gemm">,            // GEMM, with or without an epilogue
  I32EnumAttrCase<"Kernel", 2, "kernel">,        // separate kernel of an op with KernelOpInterface
  I32EnumAttrCase<"View", 3, "view">,            // no command: an offset into the slot of another value
  I32EnumAttrCase<"Concat", 4, "concat">,        // no command: the producers write into slices of the result
  I32EnumAttrCase<"State", 5, "state">,          // read or write of a state
  I32EnumAttrCase<"Structure", 6, "structure">,  // return, yield, regions
  I32EnumAttrCase<"Copy", 7, "copy">]>;          // copy between device and host, or its wait

def Kiln_ProgramKind : Kiln_Enum<"ProgramKind", "the purpose of a program", [
  I32EnumAttrCase<"Forward", 0, "forward">,
  I32EnumAttrCase<"Train", 1, "train">,
  I32EnumAttrCase<"Evaluate", 2, "evaluate">,
  I32EnumAttrCase<"Generate", 3, "generate">,
  I32EnumAttrCase<"Sync", 4, "sync">]>;
def Kiln_ProgramKindAttr : Kiln_EnumAttr<Kiln_ProgramKind, "program_kind">;

def Kiln_MemorySpace : Kiln_Enum<"MemorySpace", "the memory that holds a value", [
  I32EnumAttrCase<"Device", 0, "device">,
  I32EnumAttrCase<"Host", 1, "host">]>;
def Kiln_MemorySpaceAttr : Kiln_EnumAttr<Kiln_MemorySpace, "memory", [
    DeclareAttrInterfaceMethods<TensorEncodingAttrInterface>,
    DeclareAttrInterfaceMethods<VerifiableTensorEncoding>]> {
  let description = [{
    The encoding of a tensor type, or the memory space of a view, for data in host
    memory. A type without this attribute is stored on the device.

    Example: `tensor<8x16xf32, #kiln.memory<host>>`
  }];
}

def Kiln_InputRole : Kiln_Enum<"InputRole", "the role of a program input", [
  I32EnumAttrCase<"Tokens", 0, "tokens">,        // i32 [batch, sequence length]
  I32EnumAttrCase<"Targets", 1, "targets">,      // like Tokens; -100: no loss
  I32EnumAttrCase<"Rng", 2, "rng">,              // i64 [micro-batches, 3]
  I32EnumAttrCase<"LossScale", 3, "loss_scale">, // f64 []
  I32EnumAttrCase<"Rate", 4, "lr">,              // f64 []
  I32EnumAttrCase<"Step", 5, "step">,            // i64 []
  I32EnumAttrCase<"Clip", 6, "clip">,            // f64 []
  I32EnumAttrCase<"Position", 7, "position">,    // i64 []
  I32EnumAttrCase<"Data", 8, "data">,            // declared by the model
  I32EnumAttrCase<"GradientScale", 9, "gradient_scale">, // f64 []
  I32EnumAttrCase<"TensorRank", 10, "tp_rank">]>;          // i32 []
class Kiln_Attr<string name, string attrMnemonic> : AttrDef<Kiln_Dialect, name> {
  let mnemonic = attrMnemonic;
  let assemblyFormat = "`<` struct(params) `>`";
}

def Kiln_InputAttr : AttrDef<Kiln_Dialect, "Input"> {
  let mnemonic = "input";
  let summary = "the role of a program input";
  let description = [{
    The attribute `kiln.input` of an argument of a program. An argument without the
    attribute that is named `tokens`, `targets`, `rng`, `loss_scale`, `lr`, `step`,
    `clip`, `position`, `gradient_scale` or `tp_rank` has the role of that name. The model declares inputs of
    role `data`; the runtime reads them from the tensor of the same name in a file.
    With `batch_dim`, which must be 0, each step gets the rows of its sequences.
    Without it, every step gets the whole tensor.

    Example: `#kiln.input<data, batch_dim = 0>`
  }];
  let parameters = (ins EnumParameter<Kiln_InputRole>:$role,
                        OptionalParameter<"::std::optional<int64_t>">:$batch_dim);
  let assemblyFormat = "`<` $role (`,` `batch_dim` `=` $batch_dim^)? `>`";
}

def Kiln_OrderAttr : AttrDef<Kiln_Dialect, "Order"> {
  let mnemonic = "order";
  let summary = "the order in which the segments of micro-batches are executed";
  let description = [{
    `alternate`, `all-forward-first`, `one-forward-one-backward:K` with K micro-batches
    in flight, or a list of segments such as `F0 F1 B0 B1`: F and B are the forward and
    the backward segment, followed by the number of the micro-batch.

    Example: `#kiln.order<"one-forward-one-backward:4">`
  }];
  let parameters = (ins StringRefParameter<"text of the order">:$text);
  let assemblyFormat = "`<` $text `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    ::kiln::abi::SegmentOrder getSegmentOrder();
  }];
}

def Kiln_LayerAttr : AttrDef<Kiln_Dialect, "Layer"> {
  let mnemonic = "layer";
  let summary = "the layer of a model that an op belongs to";
  let description = [{
    The attribute `kiln.layer` of an op in a program. It contains the name of the
    layer, which reports show, and the index of the layer among the layers of its
    kind, starting at 0. Importers set it on every op that belongs to a layer. A
    pass that replaces an op gives the new ops the layer of the old one (`copyLayer`,
    `LayerListener`). The planner groups the stages of the forward pass by layer, and
    `--recompute=blocks` keeps the input of each layer. The attribute does not affect
    results. `kiln-form-dispatches` removes it, so that equal kernels of different
    layers are merged.

    Example: `%y = kiln.relu %x {kiln.layer = #kiln.layer<"h.3", 3>} : tensor<8x4xf32>`
  }];
  let parameters = (ins StringRefParameter<"name of the layer">:$name, "int64_t":$number);
  let assemblyFormat = "`<` $name `,` $number `>`";
  let genMnemonicAlias = 1;
  let genVerifyDecl = 1;
}

def Kiln_Factor : Kiln_Enum<"Factor", "the factor of a low-rank adapter", [
  I32EnumAttrCase<"A", 0, "a">,      // [r, inputs]
  I32EnumAttrCase<"B", 1, "b">]>;    // [outputs, r]

def Kiln_Quantization : Kiln_Enum<"Quantization", "the encoding of a quantized weight", [
  I32EnumAttrCase<"Nf4", 0, "nf4">,     // four bits per element, see kiln/Support/Nf4.h
  I32EnumAttrCase<"Int8", 1, "int8">]>; // eight bits per element, see kiln/Support/Int8.h

def Kiln_QuantizedAttr : AttrDef<Kiln_Dialect, "Quantized"> {
  let mnemonic = "quantized";
  let summary = "a weight and its encoding";
  let description = [{
    The attribute `quantized` of a `kiln.state` whose bytes encode a weight, and the
    attribute `encoding` of a `kiln.dequantize` that decodes them. `type` is the type
    of the weight, a matrix of floating-point numbers (C1): files that contain it have
    this shape, and files to which it is decoded have this element type.

    In `int8`, each `block` of consecutive elements of the row-major matrix has a
    scale. A block has 64 elements, or as many as a row. Some inputs of the layer can
    be outliers, whose elements are stored in bf16. `outliers` is their number, at
    most that of all inputs, and `inputs` is the dimension of the inputs: 1 if the
    matrix has one column per input, and 0 if it has one row per input, or if there
    are no outliers. `nf4` has neither blocks nor outliers (C2).

    Example: `#kiln.quantized<nf4, tensor<768x2304xf32>>`,
    `#kiln.quantized<int8, tensor<768x2304xf32>, block = 64, outliers = 4, inputs = 1>`
  }];
  let parameters = (ins EnumParameter<Kiln_Quantization>:$encoding, "::mlir::RankedTensorType":$type,
                        DefaultValuedParameter<"int64_t", "0">:$block,
                        DefaultValuedParameter<"int64_t", "0">:$outliers,
                        DefaultValuedParameter<"int64_t", "0">:$inputs);
  let assemblyFormat = "`<` $encoding `,` $type (`,` struct($block, $outliers, $inputs)^)? `>`";
  let genVerifyDecl = 1;
}

def Kiln_MomentStorage : Kiln_Enum<"MomentStorage", "the form in which an update stores an optimizer state", [
  I32EnumAttrCase<"Plain", 0, "plain">,          // a tensor of numbers
  // 8-bit codes and scales, see kiln/Support/Dynamic8.h. A map, the signed or
  // the unsigned one, gives the value of each code.
  I32EnumAttrCase<"Signed", 1, "signed">,
  I32EnumAttrCase<"Unsigned", 2, "unsigned">]>;
def Kiln_MomentStorageAttr : Kiln_EnumAttr<Kiln_MomentStorage, "moment_storage">;

def Kiln_ShardAttr : AttrDef<Kiln_Dialect, "Shard"> {
  let mnemonic = "shard";
  let summary = "a tensor that is divided over ranks";
  let description = [{
    The attribute `shard` of a `kiln.state` of which each rank of `axis`, an axis of
    the module's mesh, stores a shard. `type` is the type of the tensor that is
    divided. The row-major tensor consists of `blocks` blocks of equal size, each of
    which is divided as described for `kiln.reduce_scatter`: a matrix of R rows is
    divided by columns if it has R blocks. If an `owner` is given, the rank with this
    index has the whole tensor, and the others have nothing. If the tensor is itself a
    shard, `of` describes that shard, which is over another axis.

    Example: `#kiln.shard<tensor<5x8xf32> over "dp">`,
    `#kiln.shard<tensor<5x8xf32> over "tp" blocks = 5>`,
    `#kiln.shard<tensor<5x8xf32> over "dp" owner = 1>`
  }];
  let parameters = (ins "::mlir::RankedTensorType":$type, StringRefParameter<"">:$axis,
                        DefaultValuedParameter<"int64_t", "1">:$blocks,
                        DefaultValuedParameter<"int64_t", "-1">:$owner,
                        OptionalParameter<"::mlir::Attribute">:$of);
  let assemblyFormat = "`<` $type `over` $axis (`blocks` `=` $blocks^)? (`owner` `=` $owner^)? (`of` $of^)? `>`";
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    /// Returns the shard that is divided further, or null.
    ::kiln::ShardAttr getOuter() { return ::llvm::dyn_cast_or_null<::kiln::ShardAttr>(getOf()); }
    /// Returns the type of the whole tensor.
    ::mlir::RankedTensorType getWholeType();
    /// Returns the same division of a tensor with another element type.
    ::kiln::ShardAttr withElementType(::mlir::Type element);
  }];
  let builders = [AttrBuilder<(ins "::mlir::RankedTensorType":$type, "::llvm::StringRef":$axis,
                                   CArg<"int64_t", "1">:$blocks, CArg<"::mlir::Attribute", "{}">:$of), [{
    return $_get($_ctxt, type, axis, blocks, /*owner=*/-1, of);
  }]>];
}

def Kiln_AdapterAttr : AttrDef<Kiln_Dialect, "Adapter"> {
  let mnemonic = "adapter";
  let summary = "a factor of the low-rank adapter of a weight";
  let description = [{
    The attribute `adapter` of a `kiln.state`. The adapter of the weight `of` adds
    s * B A to the weight, where s is the scale in the attribute `kiln.lora` of the
    module. A has shape [r, inputs] and B has shape [outputs, r]. If the adapter is
    `transposed`, the weight is stored as [inputs, outputs].

    Example: `#kiln.adapter<a of @h.0.attn.c_attn.weight, transposed = true>`
  }];
  let parameters = (ins EnumParameter<Kiln_Factor>:$factor, "::mlir::FlatSymbolRefAttr":$base,
                        DefaultValuedParameter<"bool", "false">:$transposed);
  let assemblyFormat = "`<` $factor `of` $base (`,` `transposed` `=` $transposed^)? `>`";
}

def Kiln_NormalAttr : Kiln_Attr<"Normal", "normal"> {
  let summary = "initial values drawn from a normal distribution";
  let description = [{
    If `zero_row`, an index along dimension 0, is present, all elements of that row
    are 0. It does not affect the values of the other rows.

    Example: `#kiln.normal<mean = 0.0, stddev = 2.0e-02, zero_row = 3>`
  }];
  let parameters = (ins "::mlir::FloatAttr":$mean, "::mlir::FloatAttr":$stddev,
                        OptionalParameter<"::std::optional<int64_t>">:$zero_row);
  let builders = [AttrBuilder<(ins "double":$mean, "double":$stddev,
                                   CArg<"::std::optional<int64_t>", "::std::nullopt">:$zeroRow), [{
    ::mlir::Builder builder($_ctxt);
    return $_get($_ctxt, builder.getF64FloatAttr(mean), builder.getF64FloatAttr(stddev), zeroRow);
  }]>];
}
def Kiln_UniformAttr : Kiln_Attr<"Uniform", "uniform"> {
  let summary = "initial values drawn uniformly from [low, high)";
  let parameters = (ins "::mlir::FloatAttr":$low, "::mlir::FloatAttr":$high);
  let builders = [AttrBuilder<(ins "double":$low, "double":$high), [{
    ::mlir::Builder builder($_ctxt);
    return $_get($_ctxt, builder.getF64FloatAttr(low), builder.getF64FloatAttr(high));
  }]>];
}
def Kiln_SplatAttr : Kiln_Attr<"Splat", "splat"> {
  let summary = "initial values all equal to one number";
  let parameters = (ins "::mlir::FloatAttr":$value);
  let builders = [AttrBuilder<(ins "double":$value), [{
    ::mlir::Builder builder($_ctxt);
    return $_get($_ctxt, builder.getF64FloatAttr(value));
  }]>];
}
def Kiln_RopeTableAttr : Kiln_Attr<"RopeTable", "rope_table"> {
  let summary = "element [t, i] = scale * cos(t * inv_freq[i]), or sin";
  let parameters = (ins "bool":$sine, "::mlir::FloatAttr":$scale, "::mlir::DenseF64ArrayAttr":$inv_freq);
  // ExactReals uses the generic printer of the array attribute, which prints
  // all digits. The default format for a list of numbers would lose digits.
  let assemblyFormat = "`<` `sine` `=` $sine `,` `scale` `=` $scale `,` `inv_freq` `=` custom<ExactReals>($inv_freq) `>`";
  let builders = [AttrBuilder<(ins "bool":$sine, "double":$scale, "::llvm::ArrayRef<double>":$inv_freq), [{
    ::mlir::Builder builder($_ctxt);
    return $_get($_ctxt, sine, builder.getF64FloatAttr(scale), builder.getDenseF64ArrayAttr(inv_freq));
  }]>];
}

def Kiln_Nf4TableAttr : AttrDef<Kiln_Dialect, "Nf4Table"> {
  let mnemonic = "nf4_table";
  let summary = "the 256 values of scale codes and the 16 values of codes of NF4, see kiln/Support/Nf4.h";
}

#endif // KILN_DIALECT_KILN_IR_KILNATTRS_TD
