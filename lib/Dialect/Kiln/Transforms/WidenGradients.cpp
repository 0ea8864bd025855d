//===- WidenGradients.cpp - Gradients of masters in full precision --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves casts from bf16 to f32 towards the ops that add up gradients. A cast
// passes an op only if it is the only reader of the op's result: nothing is
// computed twice.
//
//===----------------------------------------------------------------------===//

#include "Precision.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "mlir/Transforms/GreedyPatternRewriteDriver.h"

namespace kiln {
#define GEN_PASS_DEF_WIDENGRADIENTS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

bool widens(CastOp op) {
  auto from = op.getX().getType();
  return from.getElementType().isBF16() && op.getType() == fullPrecision(from);
}

/// cast(sum in f32, rounded) -> sum in f32.
struct WidenSum : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CastOp op,
                                PatternRewriter &rewriter) const override {
    auto result = dyn_cast<OpResult>(op.getX());
    if (!widens(op) || !result || !result.hasOneUse())
      return failure();
    auto sum = dyn_cast<WideResultOpInterface>(result.getOwner());
    if (!sum || sum.getWideResult() != result.getResultNumber() ||
        result.getOwner()->getBlock() != op->getBlock())
      return failure();
    // What is added to has the type of the result.
    if (auto product = dyn_cast<MatmulOp>(result.getOwner()))
      if (product.getAccumulate())
        return failure();
    if (auto reduce = dyn_cast<ReduceOp>(result.getOwner()))
      if (reduce.getKind() != Reduction::Sum)
        return failure();
    rewriter.modifyOpInPlace(result.getOwner(),
                             [&] { result.setType(op.getType()); });
    rewriter.replaceOp(op, result);
    return success();
  }
};

/// cast(f(x, ...)) -> f(cast(x), ...) where f copies elements or adds them.
struct RaiseCast : OpRewritePattern<CastOp> {
  using OpRewritePattern::OpRewritePattern;
  LogicalResult matchAndRewrite(CastOp op,
                                PatternRewriter &rewriter) const override {
    Operation *source = op.getX().getDefiningOp();
    if (!widens(op) || !source || !op.getX().hasOneUse() ||
        source->getBlock() != op->getBlock() ||
        !(isa<AddOp>(source) || movesElements(source)))
      return failure();
    rewriter.setInsertionPoint(source);
    SmallVector<Value> operands;
    for (Value operand : source->getOperands())
      operands.push_back(CastOp::create(rewriter, op.getLoc(),
                                        fullPrecision(tensorTypeOf(operand)),
                                        operand));
    rewriter.modifyOpInPlace(source, [&] {
      source->setOperands(operands);
      source->getResult(0).setType(op.getType());
    });
    rewriter.replaceOp(op, source->getResults());
    return success();
  }
};

struct WidenGradientsPass : kiln::impl::WidenGradientsBase<WidenGradientsPass> {
  void runOnOperation() override {
    RewritePatternSet patterns(&getContext());
    patterns.add<WidenSum, RaiseCast>(&getContext());
    if (failed(applyPatternsGreedily(getOperation(), std::move(patterns))))
      signalPassFailure();
  }
};

} // namespace
