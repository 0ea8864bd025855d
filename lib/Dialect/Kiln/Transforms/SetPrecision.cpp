//===- SetPrecision.cpp - Mixed precision in the forward program ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// One walk in program order: when an op is reached, the types of its operands
// are final. Everything behind the forward program (autodiff, evaluation) sees
// ordinary ops on bf16 tensors and casts.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/Kiln/Transforms/Levels.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_SETPRECISION
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

/// Gives the values of one program their types.
class Autocast {
public:
  explicit Autocast(ProgramOp program)
      : program(program), low(BFloat16Type::get(program.getContext())),
        full(Float32Type::get(program.getContext())) {}
  void run();

private:
  bool isMixed(Type type) const {
    Type element = cast<RankedTensorType>(type).getElementType();
    return element == low || element == full;
  }
  Type followed(PrecisionOpInterface op) const;
  Value converted(Value value, Type element);
  void convert(PrecisionOpInterface op);

  ProgramOp program;
  Type low, full;
  /// The one cast of a state or constant, behind it.
  DenseMap<Value, Value> casts;
};

} // namespace

/// Whether a value has no type of its own: states and constants have that of
/// their reader.
static bool isFlexible(Value value) {
  return isa_and_nonnull<ReadOp, ConstantOp>(value.getDefiningOp());
}

/// The widest type of what an op reads; f32 if that has no say.
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

Value Autocast::converted(Value value, Type element) {
  auto type = tensorTypeOf(value);
  if (type.getElementType() == element)
    return value;
  Value &known = casts[value];
  if (known)
    return known;
  OpBuilder builder(program.getContext());
  builder.setInsertionPointAfterValue(value);
  return known = CastOp::create(builder, value.getLoc(), type.clone(element),
                                value);
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
  for (Operation *op : ops) {
    if (auto precise = dyn_cast<PrecisionOpInterface>(op)) {
      // A cast is what its author said.
      if (!isa<CastOp>(op))
        convert(precise);
      continue;
    }
    for (OpOperand &operand : op->getOpOperands())
      if (isMixed(operand.get().getType()))
        operand.set(converted(operand.get(), full));
  }
}

namespace {

struct SetPrecisionPass : kiln::impl::SetPrecisionBase<SetPrecisionPass> {
  using SetPrecisionBase::SetPrecisionBase;

  void runOnOperation() override {
    if (precision == "fp32")
      return;
    if (precision != "bf16") {
      getOperation().emitError("precision is '")
          << precision << "', expected fp32 or bf16";
      return signalPassFailure();
    }
    FailureOr<ProgramOp> forward = findForward(getOperation());
    if (failed(forward))
      return signalPassFailure();
    Autocast(*forward).run();
  }
};

} // namespace
