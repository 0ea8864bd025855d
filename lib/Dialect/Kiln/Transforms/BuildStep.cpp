//===- BuildStep.cpp - Conversion of gradients to updates -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Parses the pass option 'optimizer' into an OptimizerSpec, sums gradients over
// micro-batches and ranks, and adds an update for each gradient.
//
//===----------------------------------------------------------------------===//

#include "AssignOwners.h"
#include "EncodedMoments.h"
#include "ReduceGradients.h"
#include "Shards.h"
#include "WrapMicrobatches.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Optimizer.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"
#include "kiln/Dialect/Kiln/Transforms/StateTypes.h"
#include "kiln/Support/Dynamic8.h"
#include "kiln/Support/Mesh.h"
#include "kiln/Support/ZeroBy.h"

namespace kiln {
#define GEN_PASS_DEF_BUILDSTEP
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

struct Gradient {
  StateOp state;
  /// The gradient on this rank. reduceOverRanks() replaces it by the sum over
  /// the data-parallel ranks or, with ZeRO, by this rank's shard of that sum.
  PlacedValue sum;
  /// True if each tensor-parallel rank computes only a summand of the gradient.
  /// sumParts() then replaces `sum` by the sum over these ranks, too.
  bool isPartial = false;
  Value value() const { return sum.value; }
};

/// The options of the pass.
struct StepFacts {
  OptimizerSpec optimizer;
  StateTypes types;
  bool clip = true;
  int64_t microbatches = 1;
  abi::SegmentOrder order; ///< Order of the forward and backward segments.
  bool keepGradients = false;
  int64_t ranks = 1; ///< Data-parallel ranks whose gradients are summed.
  /// Number of data-parallel ranks that update their states independently, as
  /// local SGD does; 1 if gradients are summed.
  int64_t localRanks = 1;
  int64_t bucketBytes = 0;
  /// The stage of ZeRO: from stage 1 on, each rank updates its shards of the
  /// parameters, and from stage 2 on, micro-batches add to shards of gradients.
  int64_t zero = 0;
  /// True if micro-batches add to whole gradients in all stages of ZeRO.
  bool wholeGradients = false;
  /// How ZeRO divides states: every rank has a part of each tensor, or each
  /// tensor belongs to a single rank.
  support::ZeroBy by = support::ZeroBy::Elements;
  bool divides() const { return zero > 0; }
  bool hasOwners() const {
    return divides() && by != support::ZeroBy::Elements;
  }
  bool reducesInMicrobatches() const {
    return zero >= 2 && microbatches > 1 && !wholeGradients;
  }
};

class StepBuilder {
public:
  StepBuilder(ProgramOp program, const StepFacts &facts)
      : program(program), module(program->getParentOfType<ModuleOp>()),
        symbols(module), facts(facts), optimizer(facts.optimizer),
        types(facts.types), microbatches(facts.microbatches),
        builder(program.getContext()) {}

  LogicalResult run();

private:
  LogicalResult checkParts();
  void findGradients();
  void reduceOverRanks();
  int64_t ownerOf(StateOp state) const {
    return facts.hasOwners() ? owners.lookup(state.getSymNameAttr()) : kNoOwner;
  }
  void sumParts();
  RankedTensorType shardOf(StateOp state) const;
  Value wholeGradient(const Gradient &gradient);
  Value addInput(StringRef name, RankedTensorType type);
  Value clipFactor(Value gradientScale);
  LogicalResult checkWrites();
  StateOp addMoment(StateOp parameter, StringRef slot, RankedTensorType type,
                    RankedTensorType whole, double initial);
  MomentStorage addMoments(StateOp parameter, unsigned slot, bool mayEncode,
                           SmallVectorImpl<StateOp> &states);
  Value readState(StateOp state, Location loc);
  void update(Gradient &gradient, Value factor);
  void setResults();
  void dropUnusedInputs();

  ProgramOp program;
  ModuleOp module;
  SymbolTable symbols;
  const StepFacts &facts;
  const OptimizerSpec &optimizer;
  const StateTypes &types;
  int64_t microbatches;
  OpBuilder builder;
  Value loss, norm, lr, step;
  /// A scalar that is 0 if the step is skipped because a gradient is not
  /// finite. Null if the program never skips a step.
  Value apply;
  SmallVector<Gradient> gradients;
  /// The rank that updates each parameter, if parameters have owners.
  DenseMap<StringAttr, int64_t> owners;
  std::vector<UpdatedShard> updatedShards; ///< New values of parameters.
  bool hasEncoded = false; ///< True if a moment is stored as codes.
};

} // namespace

Value StepBuilder::addInput(StringRef name, RankedTensorType type) {
  unsigned index = program.getNumArguments();
  auto attrs = builder.getDictionaryAttr(
      builder.getNamedAttr("kiln.name", builder.getStringAttr(name)));
  (void)program.insertArgument(index, type, attrs, program.getLoc());
  return program.getArgument(index);
}

/// Checks that the number of micro-batches for which kiln-autodiff has split
/// the loss is the number of micro-batches of all ranks together.
LogicalResult StepBuilder::checkParts() {
  auto split =
      dyn_cast_or_null<IntegerAttr>(program->removeAttr(kMicrobatchesAttr));
  int64_t count = split ? split.getInt() : 1;
  if (count == microbatches * facts.ranks)
    return success();
  InFlightDiagnostic diagnostic =
      program.emitOpError("has a loss that kiln-autodiff split for ")
      << count << (count == 1 ? " micro-batch" : " micro-batches")
      << ", expected " << microbatches * facts.ranks;
  if (facts.ranks > 1)
    diagnostic << " (" << microbatches << " on each of " << facts.ranks
               << " ranks)";
  return diagnostic << "; give kiln-autodiff and kiln-build-step the same "
                       "option 'microbatches'"
                    << (facts.ranks > 1 ? ", for kiln-autodiff times the ranks"
                                        : "");
}

/// Finds the loss and the gradients that the program returns.
void StepBuilder::findGradients() {
  ReturnOp ret = program.getReturn();
  loss = ret.getValues().front();
  gradients.clear();
  for (unsigned i = 1; i < ret.getNumOperands(); ++i) {
    auto name =
        program.getResultAttrOfType<FlatSymbolRefAttr>(i, "kiln.gradient");
    Value value = ret.getOperand(i);
    gradients.push_back({symbols.lookup<StateOp>(name.getAttr()),
                         {value, value.getDefiningOp()},
                         bool(program.getResultAttr(i, kPartialAttr))});
  }
}

/// Sums the gradients over the ranks of data parallelism.
void StepBuilder::reduceOverRanks() {
  SmallVector<SummedGradient> summed;
  for (Gradient &gradient : gradients) {
    Type element = tensorTypeOf(gradient.value()).getElementType();
    summed.push_back({&gradient.sum,
                      facts.divides() ? shardOf(gradient.state).clone(element)
                                      : RankedTensorType(),
                      ownerOf(gradient.state)});
  }
  reduceGradients(*loss.getParentBlock(), summed, facts.bucketBytes,
                  dataAxis());
}

/// Sums the partial gradients (Gradient::isPartial) over the ranks of tensor
/// parallelism.
void StepBuilder::sumParts() {
  SmallVector<SummedGradient> summed;
  for (Gradient &gradient : gradients)
    if (gradient.isPartial)
      summed.push_back({&gradient.sum, RankedTensorType()});
  reduceGradients(program.getBlock(), summed, facts.bucketBytes, tensorAxis());
}

/// Returns the type of this rank's shard of a parameter and of its gradient. If
/// the moments of the parameter may be encoded, the shard consists of whole
/// blocks.
RankedTensorType StepBuilder::shardOf(StateOp state) const {
  RankedTensorType type = state.getTensorType();
  if (facts.hasOwners())
    return type;
  bool hasBlocks = types.encodedMoments && hasWholeBlocks(type);
  return shardTypeOf(type, facts.ranks, hasBlocks ? support::dynamicBlock : 1);
}

/// Gathers a gradient from its shards on the data-parallel ranks, for a program
/// that returns the gradient. If tensor parallelism divides the parameter, the
/// result is only the part of this rank.
Value StepBuilder::wholeGradient(const Gradient &gradient) {
  if (!facts.divides())
    return gradient.value();
  StateOp state = gradient.state;
  Value shard = gradient.value();
  return gatherWhole(
      builder, shard,
      state.getTensorType().clone(tensorTypeOf(shard).getElementType()),
      ownerOf(state));
}

/// Computes the clip factor from the sums of squares of the rows of all
/// gradients. The sums of squares of a gradient are computed as soon as the
/// gradient can be read, and are concatenated in the order of the states. The
/// gradients of states that tensor parallelism divides contribute only one
/// number, their total over all ranks, which is the first element of the
/// concatenation.
/// `gradientScale` is null if the gradients are not scaled.
Value StepBuilder::clipFactor(Value gradientScale) {
  SmallVector<Value> squares, divided;
  SmallVector<int64_t> ownersOfSquares, ownersOfDivided;
  auto f64 = builder.getF64Type();
  for (Gradient &gradient : gradients) {
    Value value = gradient.value();
    int64_t rows = getRowCount(tensorTypeOf(value));
    placeReader(builder, gradient.sum, program);
    bool isDivided = bool(gradient.state.getShard());
    (isDivided ? ownersOfDivided : ownersOfSquares)
        .push_back(ownerOf(gradient.state));
    (isDivided ? divided : squares)
        .push_back(SumSquaresOp::create(builder, value.getLoc(),
                                        RankedTensorType::get({rows}, f64),
                                        value));
  }
  builder.setInsertionPoint(program.getReturn());
  Location loc = program.getLoc();
  auto scalar = RankedTensorType::get({}, f64);
  if (facts.hasOwners()) {
    gatherFromOwners(builder, divided, ownersOfDivided);
    gatherFromOwners(builder, squares, ownersOfSquares);
  }
  if (!divided.empty())
    squares.insert(squares.begin(),
                   totalOverRanks(builder, concatenate(builder, loc, divided),
                                  tensorAxis()));
  Value joined = concatenate(builder, loc, squares);
  if (facts.divides() && !facts.hasOwners())
    joined = totalOverRanks(builder, joined, dataAxis());
  Value limit = facts.clip
                    ? addInput("clip", scalar)
                    : ConstantOp::create(builder, loc, scalar, 0.0).getResult();
  SmallVector<Type> results = {scalar, scalar};
  if (gradientScale)
    results.push_back(RankedTensorType::get({}, builder.getI64Type()));
  auto factor =
      ClipFactorOp::create(builder, loc, results, joined, limit, gradientScale);
  norm = factor.getNorm();
  apply = factor.getIsFinite();
  return factor.getFactor();
}

/// Adds a state of the optimizer. Files identify the state by its parameter and
/// slot, so it may be renamed if another state has the same symbol. `whole` is
/// the type of the whole tensor, of which `type` may be a shard.
StateOp StepBuilder::addMoment(StateOp parameter, StringRef slot,
                               RankedTensorType type, RankedTensorType whole,
                               double initial) {
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPoint(program);
  auto state = StateOp::create(
      builder, parameter.getLoc(),
      builder.getStringAttr((parameter.getSymName() + "." + slot).str()),
      TypeAttr::get(type), RoleAttr::get(builder.getContext(), Role::Optimizer),
      SplatAttr::get(builder.getContext(), initial),
      FlatSymbolRefAttr::get(parameter.getSymNameAttr()),
      builder.getStringAttr(slot),
      /*source=*/StringAttr(), /*aliases=*/ArrayAttr(), /*copies=*/ArrayAttr(),
      /*frozen=*/UnitAttr(), /*adapter=*/AdapterAttr(),
      /*quantized=*/QuantizedAttr(), /*shard=*/ShardAttr());
  ShardAttr outer = parameter.getShardAttr();
  if (outer)
    outer = shardOfMoment(outer, whole, parameter);
  if (facts.divides())
    outer = ShardAttr::get(builder.getContext(), whole, dataAxis(),
                           /*blocks=*/1, ownerOf(parameter), outer);
  if (outer)
    state.setShardAttr(outer);
  symbols.insert(state);
  return state;
}

/// Adds the states of a moment: its tensor, or its codes and scales. Unless
/// `types` gives another element type, the moment has the element type of the
/// parameter in full precision: in f16, squares of gradients underflow, and
/// bf16 is coarse for a decaying average.
MomentStorage StepBuilder::addMoments(StateOp parameter, unsigned slot,
                                      bool mayEncode,
                                      SmallVectorImpl<StateOp> &states) {
  StringRef name = optimizer.rule->slots[slot];
  RankedTensorType whole = fullPrecision(parameter.getTensorType());
  RankedTensorType type =
      facts.divides() ? fullPrecision(shardOf(parameter)) : whole;
  auto add = [&](const Twine &part, Type element, double initial) {
    states.push_back(addMoment(parameter, part.str(), type.clone(element),
                               whole.clone(element), initial));
  };
  if (!mayEncode || !types.isEncoded(slot)) {
    std::optional<ElementType> given = types.momentType(slot);
    add(name,
        given ? irTypeOf(*given, builder.getContext()) : type.getElementType(),
        0);
    return MomentStorage::Plain;
  }
  hasEncoded = true;
  bool isSigned = !llvm::is_contained(optimizer.rule->nonNegative, slot);
  auto map =
      isSigned ? support::DynamicMap::Signed : support::DynamicMap::Unsigned;
  add(name + ".codes", builder.getI8Type(), support::dynamicZero(map));
  auto scales = [&](RankedTensorType of) {
    return RankedTensorType::get({of.getNumElements() / support::dynamicBlock},
                                 builder.getF32Type());
  };
  states.push_back(addMoment(parameter, (name + ".scales").str(), scales(type),
                             scales(whole), 0));
  return isSigned ? MomentStorage::Signed : MomentStorage::Unsigned;
}

/// Returns the single read of a state in the program. Creates the read if there
/// is none.
Value StepBuilder::readState(StateOp state, Location loc) {
  for (auto read : program.getBlock().getOps<ReadOp>())
    if (read.getState() == state.getSymName())
      return read.getResult();
  OpBuilder::InsertionGuard guard(builder);
  builder.setInsertionPointToStart(&program.getBlock());
  return ReadOp::create(builder, loc, state.getType(), state.getSymName());
}

void StepBuilder::update(Gradient &gradient, Value factor) {
  StateOp state = gradient.state;
  Location loc = state.getLoc();
  Value p = readState(state, loc);
  UpdateValues values;
  values.parameter = p;
  RankedTensorType updated = tensorTypeOf(p);
  if (facts.divides()) {
    updated = shardOf(state);
    values.parameter =
        TakeShardOp::create(builder, loc, updated, p, dataAxis(),
                            ownerAttr(builder.getContext(), ownerOf(state)));
  }
  SmallVector<StateOp> states = {state};
  bool mayEncode =
      canEncodeMoments(state.getTensorType(), p) && hasBlocksOfMoments(state);
  SmallVector<MomentStorage, 2> storage;
  for (unsigned slot = 0; slot < optimizer.rule->slots.size(); ++slot)
    storage.push_back(addMoments(state, slot, mayEncode, states));
  for (StateOp moment : ArrayRef(states).drop_front())
    values.states.push_back(readState(moment, loc));
  values.gradient = gradient.value();
  values.factor = factor;
  values.rate = lr;
  values.step = step;
  values.apply = apply;
  values.weightDecay = optimizer.decayAll || tensorTypeOf(p).getRank() >= 2
                           ? optimizer.get("weight_decay")
                           : 0.0;
  bool isPlain = llvm::all_of(storage, [](MomentStorage stored) {
    return stored == MomentStorage::Plain;
  });
  Operation *op =
      isPlain ? optimizer.rule->build(builder, loc, optimizer, values)
                    .getOperation()
              : buildEncodedUpdate(builder, loc, optimizer, values, storage);
  for (auto [target, value] : llvm::zip_equal(states, op->getResults()))
    if (target == state && facts.divides())
      updatedShards.push_back({state, value, ownerOf(state)});
    else
      WriteOp::create(builder, loc, target.getSymName(), value);
}

void StepBuilder::setResults() {
  SmallVector<Value> values = {loss};
  SmallVector<Attribute> attrs;
  auto named = [&](StringRef name) {
    return builder.getDictionaryAttr(
        builder.getNamedAttr("kiln.name", builder.getStringAttr(name)));
  };
  attrs.push_back(named("loss"));
  if (norm) {
    values.push_back(norm);
    attrs.push_back(named("grad_norm"));
  }
  if (facts.keepGradients)
    for (Gradient &gradient : gradients) {
      values.push_back(wholeGradient(gradient));
      attrs.push_back(named(("gradient:" + gradient.state.getSymName()).str()));
    }
  program.getReturn().getValuesMutable().assign(values);
  program.setFunctionType(builder.getFunctionType(
      program.getBlock().getArgumentTypes(), ValueRange(values).getTypes()));
  program.setResAttrsAttr(builder.getArrayAttr(attrs));
}

void StepBuilder::dropUnusedInputs() {
  for (unsigned i = program.getNumArguments(); i-- > 0;)
    if (program.getArgument(i).use_empty())
      (void)program.eraseArgument(i);
}

/// Checks that a step can be skipped, that is, that the forward pass writes no
/// state.
LogicalResult StepBuilder::checkWrites() {
  auto writes = program.getBlock().getOps<WriteOp>();
  if (writes.empty())
    return success();
  WriteOp write = *writes.begin();
  return write.emitOpError("writes ")
         << write.getStateAttr()
         << " in the forward pass, so a step whose gradients overflow cannot "
            "be "
            "skipped; use a precision without gradient scaling, such as bf16";
}

LogicalResult StepBuilder::run() {
  ReturnOp ret = program.getReturn();
  if (ret.getNumOperands() == 0)
    return program.emitOpError("returns nothing, expected a loss and "
                               "gradients; run kiln-autodiff first");
  for (unsigned i = 1; i < ret.getNumOperands(); ++i)
    if (!program.getResultAttrOfType<FlatSymbolRefAttr>(i, "kiln.gradient"))
      return program.emitOpError("result ")
             << i << " is not a gradient; run kiln-autodiff first";
  // Merge all reads of a state into one read at the beginning of the program.
  DenseMap<StringAttr, ReadOp> reads;
  for (ReadOp read :
       llvm::make_early_inc_range(program.getBlock().getOps<ReadOp>())) {
    ReadOp &first = reads[read.getStateAttr().getAttr()];
    if (!first) {
      first = read;
      continue;
    }
    read.getResult().replaceAllUsesWith(first.getResult());
    read.erase();
  }
  if (failed(checkParts()))
    return failure();
  if (facts.hasOwners()) {
    findGradients();
    // Sums over micro-batches are different values, even those of one gradient.
    bool addsWhole = microbatches > 1 && !facts.reducesInMicrobatches();
    SmallVector<OwnedTensor> tensors;
    for (const Gradient &gradient : gradients)
      tensors.push_back({gradient.state, getDefiningLayer(gradient.value()),
                         addsWhole ? Value() : gradient.value()});
    owners = facts.by == support::ZeroBy::Server
                 ? giveToServer(tensors)
                 : giveToOwners(tensors, facts.ranks);
  }
  if (facts.reducesInMicrobatches()) {
    findGradients();
    reduceOverRanks();
    for (auto [i, gradient] : llvm::enumerate(gradients))
      ret.setOperand(i + 1, gradient.value());
  }
  SmallVector<Operation *> complete(ret.getNumOperands());
  for (auto [op, value] : llvm::zip_equal(complete, ret.getOperands()))
    op = value.getDefiningOp();
  if (facts.reducesInMicrobatches())
    for (auto [i, gradient] : llvm::enumerate(gradients))
      complete[i + 1] = gradient.sum.readAfter;
  if (failed(wrapMicrobatches(program, microbatches, facts.order, complete)))
    return failure();
  findGradients();
  if (facts.ranks > 1) {
    loss = reduceLoss(loss);
    if (!facts.reducesInMicrobatches())
      reduceOverRanks();
  } else if (facts.localRanks > 1) {
    loss = averageOverRanks(loss, facts.localRanks);
  }
  sumParts();

  builder.setInsertionPoint(ret);
  Value factor;
  auto scalar = RankedTensorType::get({}, builder.getF64Type());
  Value gradientScale = program.getInput(InputRole::GradientScale);
  if (gradientScale && failed(checkWrites()))
    return failure();
  if (gradientScale && facts.localRanks > 1)
    return program.emitOpError(
        "scales the gradients, but with sync-every each rank would adapt its "
        "own scale, and all ranks must use the same scale; use a precision "
        "without gradient scaling, such as bf16");
  if (facts.clip || gradientScale) {
    factor = clipFactor(gradientScale);
  } else {
    factor = ConstantOp::create(builder, program.getLoc(), scalar, 1.0);
    factor.getDefiningOp()->moveBefore(&program.getBlock(),
                                       program.getBlock().begin());
  }
  lr = addInput("lr", scalar);
  if (optimizer.rule->needsStep)
    step = addInput("step", RankedTensorType::get({}, builder.getI64Type()));

  for (Gradient &gradient : gradients) {
    builder.setInsertionPoint(ret);
    if (!norm && microbatches == 1)
      placeUpdateEarly(builder, gradient.sum,
                       readState(gradient.state, gradient.state.getLoc()));
    update(gradient, factor);
  }
  gatherStates(std::move(updatedShards), facts.bucketBytes);
  if (types.encodedMoments && !hasEncoded)
    return emitError(module.getLoc())
           << "the model has no parameter whose moments can be stored as "
              "dynamic8: only parameters that are not embeddings and have at "
              "least "
           << kLeastEncoded << " f32 elements, a multiple of "
           << support::dynamicBlock
           << ", support it; store moments in f32 or bf16";
  if (norm && facts.localRanks > 1)
    norm = averageOverRanks(norm, facts.localRanks);
  builder.setInsertionPoint(ret);
  setResults();
  dropUnusedInputs();
  return success();
}

namespace {

struct BuildStepPass : kiln::impl::BuildStepBase<BuildStepPass> {
  using BuildStepBase::BuildStepBase;

  void runOnOperation() override {
    auto facts = readOptions();
    if (failed(facts))
      return signalPassFailure();
    for (ProgramOp program : getOperation().getOps<ProgramOp>())
      if (program.getKind() == ProgramKind::Train)
        if (failed(StepBuilder(program, *facts).run()))
          return signalPassFailure();
  }

private:
  FailureOr<StepFacts> readOptions();
};

} // namespace

FailureOr<StepFacts> BuildStepPass::readOptions() {
  auto refuse = [&](const Twine &message) {
    return emitError(getOperation().getLoc(), message);
  };
  StepFacts facts;
  std::string error;
  auto spec = OptimizerSpec::parse(optimizer, error);
  if (!spec)
    return refuse(error);
  facts.optimizer = *spec;
  auto types = StateTypes::parse(states, *spec->rule, error);
  if (!types)
    return refuse("states " + error);
  facts.types = *types;
  if (microbatches < 1)
    return refuse("microbatches is " + Twine(microbatches.getValue()) +
                  ", expected a positive number");
  facts.microbatches = microbatches;
  auto parsed = abi::SegmentOrder::parse(order);
  support::Status legal =
      parsed.ok() ? parsed->check(microbatches) : parsed.status();
  if (!legal.ok())
    return refuse(legal.message());
  facts.order = *parsed;
  auto ranks = support::parseMesh(mesh);
  if (!ranks.ok())
    return refuse("mesh " + ranks.status().message());
  if (bucketBytes < 1)
    return refuse("bucket-bytes is " + Twine(bucketBytes.getValue()) +
                  ", expected a positive number");
  setMesh(getOperation(), *ranks);
  facts.ranks = ranks->sizeOf(support::dataAxis);
  facts.bucketBytes = bucketBytes;
  if (zero < 0 || zero > 3)
    return refuse("option 'zero' is " + Twine(zero.getValue()) +
                  ", expected a stage of ZeRO from 0 to 3");
  if (zero > 0 && facts.ranks == 1)
    return refuse("option 'zero' divides states over data-parallel ranks, but "
                  "the mesh has one such rank; set the mesh to dp=N");
  facts.zero = zero;
  facts.wholeGradients = wholeGradients;
  auto by = support::zeroByNamed(zeroBy);
  if (!by)
    return refuse("zero-by is '" + zeroBy +
                  "', expected elements, owner or server");
  facts.by = *by;
  if (syncEvery < 1)
    return refuse("sync-every is " + Twine(syncEvery.getValue()) +
                  ", expected a positive number");
  if (syncEvery > 1) {
    if (facts.ranks == 1)
      return refuse("sync-every averages the states of data-parallel ranks, "
                    "but the mesh has one such rank; set the mesh to dp=N");
    if (zero > 0)
      return refuse("option 'sync-every' averages whole states, but 'zero' "
                    "divides states over ranks; set only one of these options");
    std::swap(facts.ranks, facts.localRanks);
  }
  facts.clip = clip;
  facts.keepGradients = keepGradients;
  return facts;
}
