//===- RebuiltOps.cpp - Forward ops that are cheap to compute again -------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "RebuiltOps.h"

#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace kiln;

static RebuiltOp rebuildNorm(Operation *norm, Value gamma, Value beta,
                             ValueRange statistics) {
  RebuiltOp rebuilt;
  rebuilt.residual = norm->getResult(0);
  rebuilt.sources = {norm->getOperand(0)};
  rebuilt.inputs = {norm->getOperand(0), gamma};
  if (beta)
    rebuilt.inputs.push_back(beta);
  llvm::append_range(rebuilt.inputs, statistics);
  bool hasBeta = bool(beta);
  rebuilt.build = [=](OpBuilder &builder, ValueRange arguments) -> Value {
    // Normalize in full precision and round only after gain and shift, as the
    // norm op does.
    Type type = norm->getResult(0).getType();
    Value normalized = NormalizeOp::create(
        builder, norm->getLoc(),
        fullPrecision(tensorTypeOf(norm->getResult(0))), arguments[0],
        arguments.drop_front(hasBeta ? 3 : 2));
    return AffineOp::create(builder, norm->getLoc(), type, normalized,
                            arguments[1], hasBeta ? arguments[2] : Value());
  };
  return rebuilt;
}

static RebuiltOp rebuildCheap(Operation *op) {
  RebuiltOp rebuilt;
  rebuilt.residual = op->getResult(0);
  for (Value operand : op->getOperands()) {
    rebuilt.inputs.push_back(operand);
    if (tensorTypeOf(operand).getNumElements() ==
        tensorTypeOf(rebuilt.residual).getNumElements())
      rebuilt.sources.push_back(operand);
  }
  rebuilt.build = [=](OpBuilder &builder, ValueRange arguments) -> Value {
    IRMapping mapping;
    mapping.map(op->getOperands(), arguments);
    return builder.clone(*op, mapping)->getResult(0);
  };
  return rebuilt;
}

std::optional<RebuiltOp> kiln::findRebuilt(Operation *op) {
  if (auto norm = dyn_cast<LayerNormOp>(op))
    return rebuildNorm(norm, norm.getGamma(), norm.getBeta(),
                       {norm.getMean(), norm.getRstd()});
  if (auto norm = dyn_cast<RmsNormOp>(op))
    return rebuildNorm(norm, norm.getGamma(), Value(), {norm.getRstd()});
  auto dispatchable = dyn_cast<DispatchableOpInterface>(op);
  if (dispatchable && dispatchable.isCheapToRebuild())
    return rebuildCheap(op);
  return std::nullopt;
}

Value kiln::buildAgain(OpBuilder &builder, const RebuiltOp &rebuilt) {
  OpBuilder::InsertionGuard guard(builder);
  Location loc = rebuilt.residual.getLoc();
  auto recompute = RecomputeOp::create(builder, loc, rebuilt.residual.getType(),
                                       rebuilt.inputs);
  openIsolatedBody(builder, recompute, rebuilt.inputs);
  YieldOp::create(
      builder, loc,
      rebuilt.build(builder, recompute.getBody().front().getArguments()));
  return recompute->getResult(0);
}
