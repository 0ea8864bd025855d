//===- SetPrecision.cpp - Mixed precision of the forward program ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Visits the ops of a program once, in order, so that the types of an op's
// operands are final when the op is visited. Later passes (autodiff,
// evaluation) see ordinary ops on narrow tensors and casts.
//
//===----------------------------------------------------------------------===//

#include "Precision.h"

#include "kiln/Dialect/Kiln/IR/GradientType.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_SETPRECISION
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

/// Assigns element types to the values of a program.
class Autocast {
public:
  Autocast(ProgramOp program, ElementType low)
      : program(program), low(irTypeOf(low, program.getContext())),
        full(Float32Type::get(program.getContext())) {}
  void run();

private:
  bool isMixed(Type type) const {
    Type element = cast<RankedTensorType>(type).getElementType();
    return element == low || element == full;
  }
  bool isFlexible(Value value) const { return flexible.contains(value); }
  void findFlexible(Operation *op);
  Type followed(PrecisionOpInterface op) const;
  /// Returns `value` if `element` is its element type. Otherwise returns the
  /// conversion of `value` if it has already been inserted, or null.
  Value lookup(Value value, Type element) const;
  Value converted(Value value, Type element);
  void convert(PrecisionOpInterface op);

  ProgramOp program;
  Type low, full;
  /// Maps each converted value to its conversion, which is inserted directly
  /// after the value.
  DenseMap<Value, Value> conversions;
  /// The f32 values that are states or constants, or are computed only from
  /// these. They do not influence the types of the ops that read them.
  DenseSet<Value> flexible;
};

} // namespace

/// Returns the result of a cast. Folds the cast if its operand is a constant.
static Value folded(CastOp op) {
  SmallVector<OpFoldResult> results;
  // Fold only to types in which ops compute.
  if (!op.getX().getDefiningOp<ConstantOp>() ||
      gradientType(op.getType()) != op.getType() || failed(op->fold(results)))
    return op;
  auto value = dyn_cast<Attribute>(results.front());
  if (!value)
    return op;
  OpBuilder builder(op);
  Value constant = ConstantOp::create(builder, op.getLoc(), op.getType(),
                                      cast<ElementsAttr>(value));
  copyLayer(op, constant.getDefiningOp());
  op.getResult().replaceAllUsesWith(constant);
  op.erase();
  return constant;
}

void Autocast::findFlexible(Operation *op) {
  if (llvm::all_of(op->getOperands(), [&](Value operand) {
        return !isMixed(operand.getType()) || isFlexible(operand);
      }))
    for (Value result : op->getResults())
      if (isMixed(result.getType()) &&
          tensorTypeOf(result).getElementType() == full)
        flexible.insert(result);
}

/// Returns the widest type of the operands that determine an op's type; f32 if
/// there are none.
Type Autocast::followed(PrecisionOpInterface op) const {
  bool hasLow = false;
  for (auto [i, operand] : llvm::enumerate(op->getOperands())) {
    if (!isMixed(operand.getType()) || isFlexible(operand) ||
        op.keepsFullOperand(i))
      continue;
    if (tensorTypeOf(operand).getElementType() == full)
      return full;
    hasLow = true;
  }
  return hasLow ? low : full;
}

Value Autocast::lookup(Value value, Type element) const {
  return tensorTypeOf(value).getElementType() == element
             ? value
             : conversions.lookup(value);
}

Value Autocast::converted(Value value, Type element) {
  // A chain of ops that move the elements of a parameter may have any length,
  // so recursion could overflow the stack.
  SmallVector<Value> pending = {value};
  while (!pending.empty()) {
    Value next = pending.back();
    if (lookup(next, element)) {
      pending.pop_back();
      continue;
    }
    Operation *source = next.getDefiningOp();
    OpBuilder builder(program.getContext());
    builder.setInsertionPointAfterValue(next);
    auto type = tensorTypeOf(next).clone(element);
    if (!isFlexible(next) || !movesElements(source) || isa<SliceOp>(source)) {
      auto cast = CastOp::create(builder, next.getLoc(), type, next);
      setLayer(cast, getDefiningLayer(next));
      conversions[next] = folded(cast);
      continue;
    }
    // Convert the operands of `source` instead of its result, because the
    // operands are at most as large as the result. The result of a slice is
    // cast above, because it is smaller than the operand of the slice.
    IRMapping mapping;
    for (Value operand : source->getOperands())
      if (Value made = lookup(operand, element))
        mapping.map(operand, made);
      else
        pending.push_back(operand);
    if (pending.back() != next)
      continue;
    Value made = builder.clone(*source, mapping)->getResult(0);
    made.setType(type);
    conversions[next] = made;
  }
  return lookup(value, element);
}

void Autocast::convert(PrecisionOpInterface op) {
  Type element = op.getPrecision() == Precision::Low    ? low
                 : op.getPrecision() == Precision::Full ? full
                                                        : followed(op);
  for (OpOperand &operand : op->getOpOperands())
    if (isMixed(operand.get().getType()))
      operand.set(converted(
          operand.get(),
          op.keepsFullOperand(operand.getOperandNumber()) ? full : element));
  for (OpResult result : op->getResults())
    if (isMixed(result.getType()))
      result.setType(tensorTypeOf(result).clone(
          op.keepsFullResult(result.getResultNumber()) ? full : element));
}

void Autocast::run() {
  SmallVector<Operation *> ops;
  for (Operation &op : program.getBlock().without_terminator())
    ops.push_back(&op);
  for (Operation *&op : ops) {
    if (auto precise = dyn_cast<PrecisionOpInterface>(op)) {
      // Casts written in the model are not changed.
      if (auto given = dyn_cast<CastOp>(op))
        op = folded(given).getDefiningOp();
      else
        convert(precise);
    } else {
      Type element = full;
      if (auto write = dyn_cast<WriteOp>(op))
        element = SymbolTable::lookupNearestSymbolFrom<StateOp>(
                      write, write.getStateAttr())
                      .getTensorType()
                      .getElementType();
      for (OpOperand &operand : op->getOpOperands())
        if (isMixed(operand.get().getType()))
          operand.set(converted(operand.get(), element));
    }
    findFlexible(op);
  }
  for (Operation *op : llvm::reverse(ops))
    if (isOpTriviallyDead(op))
      op->erase();
}

namespace {

struct SetPrecisionPass : kiln::impl::SetPrecisionBase<SetPrecisionPass> {
  using SetPrecisionBase::SetPrecisionBase;

  void runOnOperation() override {
    if (precision == "fp32")
      return;
    std::optional<ElementType> low = support::lowPrecisionNamed(precision);
    if (!low) {
      getOperation().emitError("precision is '")
          << precision << "', expected fp32, bf16 or fp16";
      return signalPassFailure();
    }
    FailureOr<ProgramOp> forward = findForward(getOperation());
    if (failed(forward))
      return signalPassFailure();
    Autocast(*forward, *low).run();
  }
};

} // namespace
