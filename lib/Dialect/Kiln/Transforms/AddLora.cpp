//===- AddLora.cpp - Low-rank adapters of linear layers -------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The GEMM of an adapted weight also adds the result of the adapter, which is
// the `accumulate` operand of the GEMM. The scale of the adapter is applied to
// the [tokens, r] result of factor A, because this is the smallest tensor that
// the adapter computes.
//
//===----------------------------------------------------------------------===//

#include "RandomInputs.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Support/LoraConfig.h"
#include "kiln/Support/Messages.h"

#include "llvm/ADT/MapVector.h"
#include "llvm/ADT/StringExtras.h"
#include "llvm/ADT/StringSet.h"

#include <cmath>

namespace kiln {
#define GEN_PASS_DEF_ADDLORA
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;
using support::LoraConfig;

/// The name of a weight is the name of its layer followed by this suffix.
static constexpr StringLiteral kWeightSuffix = ".weight";
/// The prefix that PEFT adds to the names of the base model's layers.
static constexpr StringLiteral kPeftPrefix = "base_model.model.";

/// Returns the name of the layer that a weight belongs to.
static StringRef layerOf(StringRef weight) {
  weight.consume_back(kWeightSuffix);
  return weight;
}

/// Returns the name of a state in the files of the model.
static StringRef sourceOf(StateOp state) {
  return state.getSource().value_or(state.getSymName());
}

namespace {

/// A weight and the matmuls that multiply by it.
struct Linear {
  StateOp weight;
  /// True if the weight is stored as [inputs, outputs].
  bool isTransposed = false;
  SmallVector<MatmulOp, 1> matmuls;
  /// An op that prevents an adapter, because it reads the weight in another
  /// layout than the other matmuls, or not as the right operand of a matmul.
  /// Null if there is no such op.
  Operation *conflict = nullptr;

  StringRef layer() { return layerOf(sourceOf(weight)); }
  int64_t inputs() {
    return weight.getTensorType().getDimSize(isTransposed ? 0 : 1);
  }
  int64_t outputs() {
    return weight.getTensorType().getDimSize(isTransposed ? 1 : 0);
  }
};

struct AddLoraPass : kiln::impl::AddLoraBase<AddLoraPass> {
  using AddLoraBase::AddLoraBase;

  void runOnOperation() override {
    if (lora.empty())
      return;
    if (failed(run()))
      signalPassFailure();
  }

private:
  LogicalResult run();
  void findLinears();
  LogicalResult chooseTargets();
  std::string adaptableNames();
  FailureOr<SmallVector<Linear *>> selectLinears();
  void adapt(Linear &linear);
  StateOp addFactor(Linear &linear, Factor factor);
  void adapt(MatmulOp matmul, StateOp a, StateOp b);

  LoraConfig config;
  ProgramOp forward;
  SymbolTable *symbols = nullptr;
  SmallVector<Linear> linears;
  int64_t nextKey = 0;
};

} // namespace

/// Finds the linear layers. If an op prevents an adapter of a layer, stores the
/// op in Linear::conflict.
void AddLoraPass::findLinears() {
  llvm::SmallMapVector<Operation *, Linear, 16> found;
  for (MatmulOp matmul : forward.getBlock().getOps<MatmulOp>()) {
    auto read = matmul.getB().getDefiningOp<ReadOp>();
    if (!read || matmul.getTransA() ||
        tensorTypeOf(matmul.getB()).getRank() != 2)
      continue;
    auto weight = symbols->lookup<StateOp>(read.getState());
    if (weight.getRole() != Role::Parameter)
      continue;
    Linear &linear = found[weight];
    bool isTransposed = !matmul.getTransB();
    if (!linear.matmuls.empty() && linear.isTransposed != isTransposed)
      linear.conflict = matmul;
    linear.weight = weight;
    linear.isTransposed = isTransposed;
    linear.matmuls.push_back(matmul);
  }
  for (ReadOp read : forward.getBlock().getOps<ReadOp>()) {
    auto linear = found.find(symbols->lookup(read.getState()));
    if (linear == found.end())
      continue;
    for (OpOperand &use : read.getResult().getUses()) {
      auto matmul = dyn_cast<MatmulOp>(use.getOwner());
      if (!matmul || use.getOperandNumber() != 1 ||
          !llvm::is_contained(linear->second.matmuls, matmul))
        linear->second.conflict = use.getOwner();
    }
  }
  for (auto &[weight, linear] : found)
    linears.push_back(linear);
}

/// Returns the last parts of the names of all linear layers, for messages.
std::string AddLoraPass::adaptableNames() {
  SmallVector<std::string> names;
  for (Linear &linear : linears) {
    std::string name = linear.layer().rsplit('.').second.str();
    if (name.empty())
      name = linear.layer().str();
    if (!llvm::is_contained(names, name))
      names.push_back(name);
  }
  return llvm::join(names, ", ");
}

/// If the user has given no targets, chooses the default targets of the model.
LogicalResult AddLoraPass::chooseTargets() {
  if (!config.targets.empty())
    return success();
  auto model = getOperation()->getAttrOfType<DictionaryAttr>(kModelAttr);
  auto targets = model ? model.getAs<ArrayAttr>("adapter_targets") : nullptr;
  if (targets)
    for (auto target : targets.getAsRange<StringAttr>())
      config.targets.push_back(target.str());
  if (config.targets.empty())
    return getOperation().emitError()
           << "--lora has no targets, and this model has no default targets: "
              "expected targets=all-linear or, separated by colons, some of "
           << adaptableNames();
  return success();
}

FailureOr<SmallVector<Linear *>> AddLoraPass::selectLinears() {
  SmallVector<Linear *> selected;
  SmallVector<bool> isUsed(config.targets.size());
  for (Linear &linear : linears) {
    bool matches = config.isAllLinear();
    for (auto [i, target] : llvm::enumerate(config.targets))
      if (support::isLoraTarget(linear.layer(), target))
        matches = isUsed[i] = true;
    if (matches)
      selected.push_back(&linear);
  }
  if (!config.isAllLinear())
    for (auto [target, used] : llvm::zip(config.targets, isUsed))
      if (!used)
        return getOperation().emitError()
               << "--lora: no linear layer is named "
               << support::inQuotes(target, 60)
               << ", expected all-linear or some of " << adaptableNames();
  if (selected.empty())
    return getOperation().emitError("--lora: the model has no linear layer");
  llvm::StringSet<> names;
  for (Linear *linear : selected) {
    if (linear->conflict)
      return linear->conflict->emitOpError("reads the weight of ")
             << support::inQuotes(linear->layer().str())
             << ", so --lora cannot adapt this layer: the weight "
                "may only be read by matmuls, as the right operand, with the "
                "same layout in each";
    if (!names.insert(linear->layer()).second)
      return linear->weight.emitError(
                 "--lora: two weights belong to layers named ")
             << support::inQuotes(linear->layer().str())
             << ", expected different names";
  }
  for (Linear *linear : selected)
    if (int64_t most = std::min(linear->inputs(), linear->outputs());
        config.rank > most)
      return getOperation().emitError()
             << "--lora: r is " << config.rank << ", but the weight of "
             << support::inQuotes(linear->layer().str()) << " is a matrix of "
             << linear->outputs() << " outputs and " << linear->inputs()
             << " inputs: expected at most " << most;
  return selected;
}

/// Declares a factor of the adapter of a layer.
StateOp AddLoraPass::addFactor(Linear &linear, Factor factor) {
  MLIRContext *context = &getContext();
  bool isA = factor == Factor::A;
  StateOp weight = linear.weight;
  std::string suffix = isA ? ".lora_A.weight" : ".lora_B.weight";
  SmallVector<int64_t> shape = {config.rank, linear.inputs()};
  Attribute init;
  if (isA) {
    double bound = 1 / std::sqrt(double(linear.inputs()));
    init = UniformAttr::get(context, -bound, bound);
  } else {
    shape = {linear.outputs(), config.rank};
    init = SplatAttr::get(context, 0.0);
  }
  OpBuilder builder(context);
  std::string name = (layerOf(weight.getSymName()) + suffix).str();
  auto source = StringAttr::get(context, kPeftPrefix + linear.layer() + suffix);
  auto loc = NameLoc::get(StringAttr::get(context, name));
  auto state = StateOp::create(
      builder, loc, name,
      RankedTensorType::get(shape, weight.getTensorType().getElementType()),
      Role::Parameter, init, /*of=*/{}, /*slot=*/{}, source, /*aliases=*/{},
      /*copies=*/{}, /*frozen=*/false,
      AdapterAttr::get(context, factor,
                       FlatSymbolRefAttr::get(weight.getSymNameAttr()),
                       linear.isTransposed),
      /*quantized=*/{}, /*shard=*/{});
  symbols->insert(state, Block::iterator(forward));
  return state;
}

/// Adds the result of the adapter to the result of a matmul.
void AddLoraPass::adapt(MatmulOp matmul, StateOp a, StateOp b) {
  LayerListener listener(getLayer(matmul));
  OpBuilder builder(matmul->getContext(), &listener);
  builder.setInsertionPoint(matmul);
  auto locOf = [](StateOp state) {
    return NameLoc::get(
        StringAttr::get(state.getContext(), layerOf(state.getSymName())));
  };
  auto multiply = [&](Value x, StateOp factor, Value addend = {}) -> Value {
    Location loc = locOf(factor);
    // A read belongs to no layer, because several layers may share a state.
    auto read =
        ReadOp::create(builder, loc, factor.getType(), factor.getSymName());
    setLayer(read, LayerAttr());
    auto type = tensorTypeOf(x).clone(
        {tensorTypeOf(x).getDimSize(0), factor.getTensorType().getDimSize(0)});
    return MatmulOp::create(builder, loc, type, x, read, addend,
                            /*trans_a=*/false, /*trans_b=*/true,
                            /*grid=*/DenseI64ArrayAttr(),
                            /*kernel=*/StringAttr());
  };
  Value x = matmul.getA();
  if (config.dropout > 0) {
    int64_t sequences =
        tensorTypeOf(forward.getInput(InputRole::Tokens)).getDimSize(0);
    x = DropoutOp::create(builder, locOf(a), x.getType(), x,
                          forward.getInput(InputRole::Rng),
                          llvm::APFloat(config.dropout), nextKey++, sequences);
  }
  Value small = multiply(x, a);
  small = ScaleOp::create(builder, locOf(a), small.getType(), small,
                          llvm::APFloat(config.scale()));
  // If the matmul already has an `accumulate` operand, the matmul of factor B
  // accumulates onto this operand.
  matmul.getAccumulateMutable().assign(
      multiply(small, b, matmul.getAccumulate()));
}

void AddLoraPass::adapt(Linear &linear) {
  StateOp a = addFactor(linear, Factor::A), b = addFactor(linear, Factor::B);
  for (MatmulOp matmul : linear.matmuls)
    adapt(matmul, a, b);
}

LogicalResult AddLoraPass::run() {
  ModuleOp module = getOperation();
  auto parsed = support::parseLoraOptions(lora);
  if (!parsed.ok())
    return module.emitError() << "--lora: " << parsed.status().message();
  config = *parsed;
  FailureOr<ProgramOp> found = findForward(module);
  if (failed(found))
    return failure();
  forward = *found;
  SymbolTable table(module);
  symbols = &table;
  for (StateOp state : module.getOps<StateOp>())
    if (state.getAdapter())
      return state.emitError("--lora: the model already has adapters, expected "
                             "a model without adapters");
  // A checkpoint contains only the states of the adapters, so the program must
  // not update any other state.
  if (auto writes = forward.getBlock().getOps<WriteOp>(); !writes.empty())
    return (*writes.begin()).emitOpError("updates ")
           << (*writes.begin()).getStateAttr()
           << ", which a checkpoint of adapters would not contain: --lora "
              "expects a model whose forward pass updates no state";
  findLinears();
  if (failed(chooseTargets()))
    return failure();
  FailureOr<SmallVector<Linear *>> selected = selectLinears();
  if (failed(selected))
    return failure();
  if (config.dropout > 0 && !forward.getInput(InputRole::Rng))
    return forward.emitError("--lora: dropout needs the input 'rng', and the "
                             "program has none");
  for (StateOp state : module.getOps<StateOp>())
    if (state.getRole() == Role::Parameter)
      state.setFrozen(true);
  nextKey = firstFreeKey(forward);
  for (Linear *linear : *selected)
    adapt(*linear);
  module->setAttr(kLoraAttr, StringAttr::get(module.getContext(),
                                             support::loraOptions(config)));
  return success();
}
