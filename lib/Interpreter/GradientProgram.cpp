//===- GradientProgram.cpp - Reverse mode for gradient checks ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Implements a minimal reverse-mode differentiation that is independent of the
// compiler's autodiff pass. It applies the gradient rule of every op in reverse
// order and sums the contributions to the cotangent of each value.
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/GradientCheck.h"

using namespace mlir;
using namespace kiln;

namespace {

/// Cotangents of the values of a program during the reverse pass.
class Cotangents {
public:
  explicit Cotangents(OpBuilder &builder) : builder(builder) {}

  Value lookup(Value value) const { return sums.lookup(value); }
  void add(Value value, Value contribution) {
    Value &sum = sums[value];
    sum = sum ? AddOp::create(builder, value.getLoc(), sum, contribution)
              : contribution;
  }

private:
  OpBuilder &builder;
  DenseMap<Value, Value> sums;
};

} // namespace

/// Propagates the cotangents of an op's results to those operands that are in
/// `active`.
static LogicalResult reverse(Operation *op, OpBuilder &builder,
                             Cotangents &cotangents,
                             const DenseSet<Value> &active) {
  auto wanted = llvm::map_to_vector(op->getOperands(), [&](Value operand) {
    return active.contains(operand);
  });
  auto given = llvm::map_to_vector(op->getResults(), [&](Value result) {
    return cotangents.lookup(result);
  });
  if (llvm::none_of(wanted, [](bool isWanted) { return isWanted; }) ||
      llvm::none_of(given, [](Value cotangent) { return cotangent; }))
    return success();
  auto differentiable = dyn_cast<DifferentiableOpInterface>(op);
  if (!differentiable)
    return op->emitOpError("has no derivative: it does not implement "
                           "DifferentiableOpInterface");
  SmallVector<Value> gradients(wanted.size());
  if (failed(differentiable.buildGradient(builder, given, wanted, gradients)))
    return failure();
  for (auto [operand, isWanted, gradient] :
       llvm::zip_equal(op->getOperands(), wanted, gradients))
    if (isWanted && gradient)
      cotangents.add(operand, gradient);
  return success();
}

FailureOr<ProgramOp> kiln::buildGradientProgram(ProgramOp program,
                                                ArrayRef<unsigned> arguments) {
  SymbolTable symbols(program->getParentOfType<ModuleOp>());
  OpBuilder builder(program);
  auto gradient = cast<ProgramOp>(builder.clone(*program));
  gradient.setSymName((program.getSymName() + "_gradient").str());
  gradient->removeAttr(kNameAttr);
  symbols.insert(gradient);
  Block &block = gradient.getBlock();
  ReturnOp terminator = gradient.getReturn();

  DenseSet<Value> active;
  for (unsigned index : arguments)
    active.insert(block.getArgument(index));
  SmallVector<Operation *> ops;
  for (Operation &op : block.without_terminator()) {
    ops.push_back(&op);
    if (llvm::any_of(op.getOperands(),
                     [&](Value operand) { return active.contains(operand); }))
      active.insert_range(op.getResults());
  }

  builder.setInsertionPoint(terminator);
  Cotangents cotangents(builder);
  for (Value result : SmallVector<Value>(terminator.getValues()))
    cotangents.add(result,
                   block.addArgument(result.getType(), result.getLoc()));
  for (Operation *op : llvm::reverse(ops))
    if (failed(reverse(op, builder, cotangents, active)))
      return failure();

  SmallVector<Value> results;
  for (unsigned index : arguments) {
    Value argument = block.getArgument(index);
    Value sum = cotangents.lookup(argument);
    results.push_back(sum ? sum
                          : ConstantOp::create(builder, program.getLoc(),
                                               tensorTypeOf(argument), 0.0));
  }
  terminator.getValuesMutable().assign(results);
  gradient.setFunctionType(builder.getFunctionType(
      block.getArgumentTypes(), terminator.getValues().getTypes()));
  gradient.removeArgAttrsAttr();
  gradient.removeResAttrsAttr();
  return gradient;
}
