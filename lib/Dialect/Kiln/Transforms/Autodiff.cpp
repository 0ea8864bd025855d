//===- Autodiff.cpp - Reverse-mode differentiation --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An analysis finds the active values, which depend on a trainable state and
// influence the loss. The pass then walks backwards over the ops once, and
// builds the gradient of each op through DifferentiableOpInterface.
//
//===----------------------------------------------------------------------===//

#include "DivideRows.h"
#include "Shards.h"
#include "SplitLoss.h"
#include "kiln/Dialect/Kiln/IR/GradientType.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "llvm/ADT/SetVector.h"

namespace kiln {
#define GEN_PASS_DEF_AUTODIFF
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

/// Sets the layer of ops that replace forward ops, such as the training form of
/// a loss, to the layer of the op that is being differentiated.
class ForwardListener : public LayerListener {
public:
  void setEnd(Operation *op) { end = op; }
  void notifyOperationInserted(Operation *op,
                               OpBuilder::InsertPoint previous) override {
    if (op->getBlock() == end->getBlock() && op->isBeforeInBlock(end))
      LayerListener::notifyOperationInserted(op, previous);
  }

private:
  Operation *end = nullptr; ///< The op that marks the end of the forward pass.
};

/// Differentiates one program in place.
class Differentiator {
public:
  Differentiator(ProgramOp program, SymbolTable &symbols, bool scaleGradients)
      : program(program), symbols(symbols), scaleGradients(scaleGradients),
        builder(program.getContext(), &layer) {}

  LogicalResult run();

private:
  void findActiveValues();
  LogicalResult differentiate(Operation *op);
  /// Returns the sum of all contributions to the gradient of a value, or null
  /// if there are none.
  Value gradientOf(Value value);
  bool leavePartial(MutableArrayRef<Value> parts);
  LogicalResult returnGradients();
  Value gradientScale(RankedTensorType loss);

  ProgramOp program;
  SymbolTable &symbols;
  bool scaleGradients;
  ForwardListener layer;
  OpBuilder builder;
  DenseSet<Value> active;
  DenseMap<Value, SmallVector<Value, 2>> contributions;
  /// Gradient contributions of states, keyed by symbol.
  llvm::MapVector<StringAttr, SmallVector<Value, 2>> stateContributions;
};

} // namespace

void Differentiator::findActiveValues() {
  Block &block = program.getBlock();
  DenseSet<Value> dependent;
  for (Operation &op : block) {
    if (auto read = dyn_cast<ReadOp>(op)) {
      auto state = symbols.lookup<StateOp>(read.getState());
      if (state && state.isTrainable())
        dependent.insert(read.getResult());
      continue;
    }
    if (llvm::any_of(op.getOperands(),
                     [&](Value v) { return dependent.contains(v); }))
      for (Value result : op.getResults())
        if (isa<FloatType>(tensorTypeOf(result).getElementType()))
          dependent.insert(result);
  }
  DenseSet<Value> influential;
  influential.insert(program.getReturn().getValues().front());
  for (Operation &op : llvm::reverse(block)) {
    if (isa<ReturnOp>(op) || llvm::none_of(op.getResults(), [&](Value v) {
          return influential.contains(v);
        }))
      continue;
    for (Value operand : op.getOperands())
      influential.insert(operand);
  }
  for (Value value : dependent)
    if (influential.contains(value))
      active.insert(value);
}

/// If the contributions are pads that tile the tensor along one dimension,
/// returns the concatenation of the padded values, which equals the sum of the
/// contributions. Otherwise returns null.
static Value concatOfPads(OpBuilder &builder, ArrayRef<Value> values) {
  auto first = values.front().getDefiningOp<PadOp>();
  if (!first)
    return {};
  auto type = tensorTypeOf(values.front());
  SmallVector<PadOp> pads;
  for (Value value : values) {
    auto pad = value.getDefiningOp<PadOp>();
    if (!pad)
      return {};
    pads.push_back(pad);
  }
  for (int64_t dim = 0; dim < type.getRank(); ++dim) {
    llvm::sort(pads, [&](PadOp a, PadOp b) {
      return a.getLow()[dim] < b.getLow()[dim];
    });
    int64_t end = 0;
    bool tiles = true;
    for (PadOp pad : pads) {
      tiles &= pad.getLow()[dim] == end;
      end += tensorTypeOf(pad.getX()).getDimSize(dim);
      for (int64_t other = 0; other < type.getRank(); ++other)
        tiles &= other == dim || tensorTypeOf(pad.getX()).getDimSize(other) ==
                                     type.getDimSize(other);
    }
    if (!tiles || end != type.getDimSize(dim))
      continue;
    SmallVector<Value> inputs;
    for (PadOp pad : pads)
      inputs.push_back(pad.getX());
    return ConcatOp::create(builder, values.front().getLoc(), type, inputs,
                            dim);
  }
  return {};
}

static Value sumContributions(OpBuilder &builder, ArrayRef<Value> values) {
  if (values.empty())
    return {};
  // Insert the sum after the contribution that is defined last in program
  // order. This contribution is not always values.back(), because a
  // contribution may be an existing value: the gradient of an addition is the
  // cotangent of its result.
  OpBuilder::InsertionGuard guard(builder);
  Operation *last = nullptr;
  for (Value value : values) {
    Operation *definition = value.getDefiningOp();
    if (definition && (!last || last->isBeforeInBlock(definition)))
      last = definition;
  }
  if (last)
    builder.setInsertionPointAfter(last);
  if (values.size() > 1)
    if (Value concat = concatOfPads(builder, values))
      return concat;
  Value sum = values.front();
  for (Value value : values.drop_front())
    sum = AddOp::create(builder, value.getLoc(), sum, value);
  return sum;
}

Value Differentiator::gradientOf(Value value) {
  auto it = contributions.find(value);
  return it == contributions.end() ? Value()
                                   : sumContributions(builder, it->second);
}

LogicalResult Differentiator::differentiate(Operation *op) {
  if (auto read = dyn_cast<ReadOp>(op)) {
    auto it = contributions.find(read.getResult());
    if (it != contributions.end())
      llvm::append_range(stateContributions[read.getStateAttr().getAttr()],
                         it->second);
    return success();
  }
  SmallVector<Value> cotangents;
  for (Value result : op->getResults())
    cotangents.push_back(active.contains(result) ? gradientOf(result)
                                                 : Value());
  if (llvm::none_of(cotangents, [](Value v) { return static_cast<bool>(v); }))
    return success();

  SmallVector<bool> wanted;
  for (Value operand : op->getOperands())
    wanted.push_back(active.contains(operand));
  if (llvm::none_of(wanted, [](bool w) { return w; }))
    return success();

  auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
  if (!differentiable)
    return op->emitOpError("does not implement DifferentiableOpInterface, so "
                           "it has no derivative, but the loss depends on a "
                           "trainable state through this op");
  SmallVector<Value> gradients(op->getNumOperands());
  layer.enter(getLayer(op));
  if (failed(
          differentiable.buildGradient(builder, cotangents, wanted, gradients)))
    return failure();
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!wanted[i] || !gradients[i])
      continue;
    if (gradients[i].getType() != gradientType(tensorTypeOf(operand)))
      return op->emitOpError("built a gradient of type ")
             << gradients[i].getType() << " for operand " << i << ", expected "
             << gradientType(tensorTypeOf(operand));
    contributions[operand].push_back(gradients[i]);
  }
  return success();
}

/// If each contribution to the gradient of a state is the result of an
/// all_reduce over the axis tp, replaces each contribution by the operand of
/// its all_reduce and returns true. The total of the contributions is then
/// summed over the ranks once per step. Otherwise returns false.
bool Differentiator::leavePartial(MutableArrayRef<Value> parts) {
  auto sumOf = [](Value value) {
    auto sum = value.getDefiningOp<AllReduceOp>();
    bool isOnly = sum && sum.getAxis() == tensorAxis() &&
                  sum->getNumOperands() == 1 && value.use_empty();
    return isOnly ? sum : AllReduceOp();
  };
  if (!llvm::all_of(parts, sumOf))
    return false;
  for (Value &part : parts)
    part = sumOf(part).getInputs().front();
  return true;
}

LogicalResult Differentiator::returnGradients() {
  ReturnOp ret = program.getReturn();
  SmallVector<Value> values(ret.getValues());
  SmallVector<Attribute> resultAttrs;
  Builder &b = builder;
  resultAttrs.push_back(b.getDictionaryAttr(
      b.getNamedAttr("kiln.name", b.getStringAttr("loss"))));

  bool missing = false;
  for (StateOp state : program->getParentOfType<ModuleOp>().getOps<StateOp>()) {
    if (!state.isTrainable())
      continue;
    auto it = stateContributions.find(state.getSymNameAttr());
    bool isPartial = it != stateContributions.end() && leavePartial(it->second);
    Value gradient = it == stateContributions.end()
                         ? Value()
                         : sumContributions(builder, it->second);
    if (!gradient) {
      InFlightDiagnostic diagnostic =
          state.emitOpError("is trainable, but has no gradient");
      diagnostic.attachNote(program.getLoc())
          << "the loss of this program does not depend on the state; use the "
             "state, or declare it frozen";
      missing = true;
      continue;
    }
    // Cast bf16 and f16 gradients to full precision, in which gradients are
    // accumulated over micro-batches and parameters are updated.
    if (isNarrowFloat(gradient.getType()))
      gradient =
          CastOp::create(builder, gradient.getLoc(),
                         fullPrecision(tensorTypeOf(gradient)), gradient);
    values.push_back(gradient);
    SmallVector<NamedAttribute> attrs = {b.getNamedAttr(
        "kiln.gradient", FlatSymbolRefAttr::get(state.getSymNameAttr()))};
    if (isPartial)
      attrs.push_back(
          b.getNamedAttr(kPartialAttr, b.getStringAttr(tensorAxis())));
    resultAttrs.push_back(b.getDictionaryAttr(attrs));
  }
  if (missing)
    return failure();
  if (values.size() == 1)
    return program.emitOpError(
        "cannot be differentiated, because the module has no trainable state "
        "(a kiln.state with the role 'parameter' and without 'frozen')");
  ret.getValuesMutable().assign(values);
  program.setFunctionType(b.getFunctionType(program.getArgumentTypes(),
                                            ValueRange(values).getTypes()));
  program.setResAttrsAttr(b.getArrayAttr(resultAttrs));
  return success();
}

/// Adds the input `gradient_scale`. Returns its value in the type of the loss.
Value Differentiator::gradientScale(RankedTensorType loss) {
  auto scalar = RankedTensorType::get({}, builder.getF64Type());
  auto name = stringifyInputRole(InputRole::GradientScale);
  auto attrs = builder.getDictionaryAttr(
      builder.getNamedAttr("kiln.name", builder.getStringAttr(name)));
  unsigned index = program.getNumArguments();
  (void)program.insertArgument(index, scalar, attrs, program.getLoc());
  Value scale = program.getArgument(index);
  return loss == scalar ? scale
                        : CastOp::create(builder, program.getLoc(), loss, scale)
                              .getResult();
}

LogicalResult Differentiator::run() {
  ReturnOp ret = program.getReturn();
  if (ret.getValues().size() != 1 ||
      tensorTypeOf(ret.getValues().front()).getRank() != 0 ||
      !isa<FloatType>(tensorTypeOf(ret.getValues().front()).getElementType()))
    return program.emitOpError(
        "must return exactly one value, a floating-point loss of rank 0, to be "
        "differentiated");
  findActiveValues();

  SmallVector<Operation *> forward;
  for (Operation &op : program.getBlock().without_terminator())
    forward.push_back(&op);
  builder.setInsertionPoint(ret);
  OpBuilder phase(ret);
  layer.setEnd(PhaseOp::create(phase, program.getLoc()));
  Value loss = ret.getValues().front();
  contributions[loss].push_back(
      scaleGradients ? gradientScale(tensorTypeOf(loss))
                     : Value(ConstantOp::create(builder, loss.getLoc(),
                                                tensorTypeOf(loss), 1.0)));
  for (Operation *op : llvm::reverse(forward))
    if (failed(differentiate(op)))
      return failure();
  if (failed(returnGradients()))
    return failure();

  for (ShareOp share :
       llvm::make_early_inc_range(program.getBlock().getOps<ShareOp>())) {
    share.replaceAllUsesWith(share.getX());
    share.erase();
  }
  // Erase losses that were replaced by their training forms, pads that were
  // replaced by concatenations, and all_reduces whose results were replaced by
  // shards of the sums or by the operands.
  llvm::SmallPtrSet<Operation *, 32> before(llvm::from_range, forward);
  for (Operation &op :
       llvm::make_early_inc_range(llvm::reverse(program.getBlock()))) {
    bool isReplaced =
        isa<AllReduceOp>(op) && op.use_empty() && !before.contains(&op);
    if (isReplaced || isOpTriviallyDead(&op))
      op.erase();
  }
  return success();
}

namespace {

struct AutodiffPass : kiln::impl::AutodiffBase<AutodiffPass> {
  using AutodiffBase::AutodiffBase;

  void runOnOperation() override {
    ModuleOp module = getOperation();
    if (microbatches < 1) {
      emitError(module.getLoc(), "microbatches is ")
          << microbatches.getValue() << ", expected a positive number";
      return signalPassFailure();
    }
    FailureOr<ProgramOp> forward = findForward(module);
    if (failed(forward))
      return signalPassFailure();
    SymbolTable symbols(module);
    OpBuilder builder(*forward);
    builder.setInsertionPointAfter(*forward);
    auto train = cast<ProgramOp>(builder.clone(**forward));
    nameByKind(train, ProgramKind::Train, symbols);
    if (failed(splitLoss(train, microbatches)))
      return signalPassFailure();
    if (divideRows)
      kiln::divideRows(train);
    if (failed(Differentiator(train, symbols, scaleGradients).run()))
      return signalPassFailure();
    if (microbatches > 1)
      train->setAttr(kMicrobatchesAttr,
                     builder.getI64IntegerAttr(microbatches));
  }
};

} // namespace
