//===- ForwardGraph.cpp - Builder of transformer forward graphs -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// States precede the program in order of first use, so the module lists
// parameters in computation order.
//
//===----------------------------------------------------------------------===//

#include "ForwardGraph.h"

#include "llvm/ADT/StringSwitch.h"
#include "llvm/Support/MathExtras.h"

using namespace kiln;
using namespace mlir;
using llvm::StringRef;

const char *const kiln::supportedActivations =
    "gelu, gelu_new, gelu_pytorch_tanh, relu, silu, swish";

std::optional<Activation> kiln::parseActivation(StringRef name) {
  return llvm::StringSwitch<std::optional<Activation>>(name)
      .Case("gelu", Activation::Gelu)
      .Cases({"gelu_new", "gelu_pytorch_tanh"}, Activation::GeluTanh)
      .Case("relu", Activation::Relu)
      .Cases({"silu", "swish"}, Activation::Silu)
      .Default(std::nullopt);
}

ForwardGraph::ForwardGraph(MLIRContext &context, StringRef sourcePrefix,
                           int64_t batch, int64_t sequenceLength,
                           FloatType type)
    : sourcePrefix(sourcePrefix), batch(batch), length(sequenceLength),
      type(type ? type : Float32Type::get(&context)),
      builder(&context, &layer) {
  Location loc = builder.getUnknownLoc();
  module = ModuleOp::create(loc);
  auto tokensType =
      RankedTensorType::get({batch, length}, builder.getI32Type());
  auto scalarType = RankedTensorType::get({}, builder.getF64Type());
  auto rngType = RankedTensorType::get({1, 3}, builder.getI64Type());
  auto function = builder.getFunctionType(
      {tokensType, tokensType, rngType, scalarType}, {scalarType});

  builder.setInsertionPointToEnd(module->getBody());
  program = ProgramOp::create(builder, loc, "forward", function,
                              ProgramKind::Forward);
  const StringRef names[] = {"tokens", "targets", "rng", "loss_scale"};
  for (auto [index, name] : llvm::enumerate(names))
    program.setArgAttr(index, "kiln.name", builder.getStringAttr(name));
  program.setResultAttr(0, "kiln.name", builder.getStringAttr("loss"));
  Block &block = *program.addEntryBlock();
  tokens = block.getArgument(0);
  targets = block.getArgument(1);
  rng = block.getArgument(2);
  lossScale = block.getArgument(3);
  builder.setInsertionPointToEnd(&block);
}

void ForwardGraph::enterLayer(StringRef name, int64_t number) {
  layer.enter(LayerAttr::get(builder.getContext(), name, number));
}

void ForwardGraph::leaveLayer() { layer.enter({}); }

Location ForwardGraph::locate(StringRef name) {
  return NameLoc::get(builder.getStringAttr(name));
}

RankedTensorType ForwardGraph::tensor(ArrayRef<int64_t> shape) {
  return RankedTensorType::get(shape, type);
}

FloatAttr ForwardGraph::real(double value) {
  return builder.getF64FloatAttr(value);
}

IntegerAttr ForwardGraph::integer(int64_t value) {
  return builder.getI64IntegerAttr(value);
}

Attribute ForwardGraph::normal(double stddev) {
  return NormalAttr::get(builder.getContext(), /*mean=*/0.0, stddev);
}

Attribute ForwardGraph::splat(double value) {
  return SplatAttr::get(builder.getContext(), value);
}

Value ForwardGraph::readState(StringRef symbol, RankedTensorType type) {
  OpBuilder outside(builder.getBlock(), builder.getInsertionPoint());
  return reads[symbol] =
             ReadOp::create(outside, locate(symbol), type, StringRef(symbol));
}

Value ForwardGraph::parameter(StringRef symbol, ArrayRef<int64_t> shape,
                              Attribute init, bool prefixed) {
  OpBuilder states(program);
  std::string source = prefixed ? (sourcePrefix + symbol).str() : symbol.str();
  ArrayAttr aliases =
      source == symbol ? ArrayAttr() : builder.getStrArrayAttr({symbol});
  StateOp::create(states, locate(symbol), symbol, tensor(shape),
                  Role::Parameter, init, /*of=*/FlatSymbolRefAttr(),
                  /*slot=*/StringAttr(), builder.getStringAttr(source), aliases,
                  /*copies=*/ArrayAttr(), /*frozen=*/false,
                  /*adapter=*/AdapterAttr(), /*quantized=*/QuantizedAttr(),
                  /*shard=*/ShardAttr());
  return readState(symbol, tensor(shape));
}

Value ForwardGraph::ropeTable(StringRef symbol, bool sine,
                              ArrayRef<double> inverseFrequencies) {
  if (Value read = reads.lookup(symbol))
    return read;
  OpBuilder states(program);
  RankedTensorType table =
      tensor({length, static_cast<int64_t>(inverseFrequencies.size())});
  auto init = RopeTableAttr::get(builder.getContext(), sine, /*scale=*/1.0,
                                 inverseFrequencies);
  StateOp::create(states, locate(symbol), symbol, table, Role::Constant, init);
  return readState(symbol, table);
}

Value ForwardGraph::addToRows(Value x, Value shift, Location loc) {
  Value rows = BroadcastOp::create(builder, loc, x.getType(), shift,
                                   ArrayRef<int64_t>{1});
  return AddOp::create(builder, loc, x, rows);
}

Value ForwardGraph::embedding(StringRef name, int64_t rows, int64_t width,
                              double stddev,
                              std::optional<int64_t> paddingIndex) {
  auto init =
      NormalAttr::get(builder.getContext(), /*mean=*/0.0, stddev, paddingIndex);
  Value table = parameter((name + ".weight").str(), {rows, width}, init);
  return EmbeddingOp::create(
      builder, locate(name), tensor({batch * length, width}), tokens, table,
      /*rank=*/Value(), paddingIndex ? integer(*paddingIndex) : IntegerAttr());
}

Value ForwardGraph::positionEmbedding(StringRef name, int64_t rows,
                                      int64_t width, double stddev) {
  Location loc = locate(name);
  Value table =
      parameter((name + ".weight").str(), {rows, width}, normal(stddev));
  if (rows != length)
    table = SliceOp::create(builder, loc, tensor({length, width}), table,
                            ArrayRef<int64_t>{0, 0});
  Value each = BroadcastOp::create(builder, loc, tensor({batch, length, width}),
                                   table, ArrayRef<int64_t>{1, 2});
  return ReshapeOp::create(builder, loc, tensor({batch * length, width}), each);
}

Value ForwardGraph::layerNorm(Value x, StringRef name, double eps) {
  int64_t width = getColumnCount(tensorTypeOf(x));
  Value gain = parameter((name + ".weight").str(), {width}, splat(1.0));
  Value shift = parameter((name + ".bias").str(), {width}, splat(0.0));
  return LayerNormOp::create(builder, locate(name), x, gain, shift, eps).getY();
}

Value ForwardGraph::rmsNorm(Value x, StringRef name, double eps) {
  int64_t width = getColumnCount(tensorTypeOf(x));
  Value gain = parameter((name + ".weight").str(), {width}, splat(1.0));
  return RmsNormOp::create(builder, locate(name), x, gain, eps).getY();
}

Value ForwardGraph::linear(Value x, StringRef name, int64_t outputs,
                           WeightLayout layout, bool bias, double stddev) {
  Location loc = locate(name);
  int64_t inputs = getColumnCount(tensorTypeOf(x));
  bool transposed = layout == WeightLayout::OutIn;
  SmallVector<int64_t> shape = {inputs, outputs};
  if (transposed)
    std::swap(shape[0], shape[1]);
  Value weight = parameter((name + ".weight").str(), shape, normal(stddev));
  Value shift;
  if (bias)
    shift = parameter((name + ".bias").str(), {outputs}, splat(0.0));
  Value y = MatmulOp::create(builder, loc, x, weight, /*transA=*/false,
                             /*transB=*/transposed);
  return bias ? addToRows(y, shift, loc) : y;
}

Value ForwardGraph::dropout(Value x, StringRef name, double p) {
  if (p == 0.0)
    return x;
  return DropoutOp::create(builder, locate(name), x.getType(), x, rng,
                           APFloat(p), nextKey++, batch);
}

Value ForwardGraph::attention(Value q, Value k, Value v, StringRef name,
                              const AttentionShape &shape) {
  bool drops = shape.dropout != 0.0;
  return AttentionOp::create(
             builder, locate(name), q.getType(),
             tensor({batch * shape.heads, length}), q, k, v,
             drops ? rng : Value(), integer(batch), integer(shape.heads),
             integer(shape.keyHeads), real(shape.scale),
             /*causal=*/builder.getUnitAttr(), real(shape.dropout),
             integer(drops ? nextKey++ : 0), /*kv_tile=*/IntegerAttr())
      .getO();
}

Value ForwardGraph::rope(Value x, StringRef name, int64_t heads,
                         ArrayRef<double> inverseFrequencies) {
  Value cos = ropeTable("rope.cos", /*sine=*/false, inverseFrequencies);
  Value sin = ropeTable("rope.sin", /*sine=*/true, inverseFrequencies);
  return RopeOp::create(builder, locate(name), x.getType(), x, cos, sin,
                        integer(heads), integer(batch));
}

Value ForwardGraph::columns(Value x, StringRef name, int64_t first,
                            int64_t count) {
  return SliceOp::create(builder, locate(name), tensor({batch * length, count}),
                         x, ArrayRef<int64_t>{0, first});
}

Value ForwardGraph::activation(Value x, StringRef name, Activation kind) {
  Location loc = locate(name);
  switch (kind) {
  case Activation::Gelu:
    return GeluOp::create(builder, loc, x, /*tanh=*/false);
  case Activation::GeluTanh:
    return GeluOp::create(builder, loc, x, /*tanh=*/true);
  case Activation::Relu:
    return ReluOp::create(builder, loc, x);
  case Activation::Silu:
    return SiluOp::create(builder, loc, x);
  }
  llvm_unreachable("all activations are listed");
}

Value ForwardGraph::gatedActivation(Value gate, Value up, StringRef name,
                                    Activation kind) {
  if (kind == Activation::Silu)
    return SwigluOp::create(builder, locate(name), gate, up);
  return MulOp::create(builder, locate(name), activation(gate, name, kind), up);
}

Value ForwardGraph::add(Value a, Value b, StringRef name) {
  return AddOp::create(builder, locate(name), a, b);
}

void ForwardGraph::finishWithLoss(Value hidden, StringRef name,
                                  StringRef weight, int64_t vocabulary,
                                  double stddev) {
  Value classifier = reads.lookup(weight);
  if (classifier)
    // The classifier is tied to the embedding. Weight files often repeat the
    // embedding under the name of the classifier, so add this name to the
    // `copies` of the state.
    module->lookupSymbol<StateOp>(weight).setCopiesAttr(
        builder.getStrArrayAttr({(name + ".weight").str()}));
  else
    classifier =
        parameter(weight, {vocabulary, getColumnCount(tensorTypeOf(hidden))},
                  normal(stddev), /*prefixed=*/false);
  Location loc = locate(name);
  Value loss = LinearCrossEntropyOp::create(
      builder, loc, lossScale.getType(), hidden, classifier, targets, lossScale,
      /*rank=*/Value(), /*rows=*/IntegerAttr(), /*classes=*/IntegerAttr());
  ReturnOp::create(builder, loc, loss);
}

/// Returns the number of elements of all states and values. Saturates instead
/// of overflowing.
static uint64_t countElements(ModuleOp module) {
  uint64_t total = 0;
  auto count = [&](Type type) {
    uint64_t elements = 1;
    for (int64_t extent : cast<RankedTensorType>(type).getShape())
      elements = llvm::SaturatingMultiply<uint64_t>(elements, extent);
    total = llvm::SaturatingAdd(total, elements);
  };
  module.walk([&](Operation *op) {
    if (auto state = dyn_cast<StateOp>(op))
      count(state.getTensorType());
    for (Type type : op->getResultTypes())
      count(type);
  });
  return total;
}

llvm::Expected<OwningOpRef<ModuleOp>> ForwardGraph::takeModule(StringRef file) {
  // Below this limit, byte sizes and the operation counts of a matmul are far
  // from the limits of 64-bit integers.
  constexpr uint64_t limit = 1ull << 40;
  uint64_t elements = countElements(*module);
  if (elements > limit)
    return llvm::make_error<ImportError>(
        ExitCode::BadInput,
        file.str() + ": with batch " + std::to_string(batch) +
            " and sequence length " + std::to_string(length) +
            " the model's tensors have more than 2^40 elements; expected "
            "smaller dimensions");
  return std::move(module);
}
