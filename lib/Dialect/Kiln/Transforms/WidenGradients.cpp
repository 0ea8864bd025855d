//===- WidenGradients.cpp - Weight gradients in full precision --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A program in mixed precision casts its gradients from a narrow type, such as
// bf16, to f32 before it returns them. This pass moves these casts towards the
// ops that compute the gradients. A cast moves past an op only if it is the
// only reader of the op's result, so nothing is computed twice. Casts of the
// forward pass do not change. Every step removes a cast or moves it up, so the
// pass is linear in the size of the program.
//
//===----------------------------------------------------------------------===//

#include "Precision.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_WIDENGRADIENTS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

class Widener {
public:
  explicit Widener(ProgramOp program) : program(program) {}
  void run();

private:
  void findCasts();
  bool dropRounding(CastOp op);
  bool widenSum(CastOp op);
  bool raise(CastOp op);

  ProgramOp program;
  /// Casts of narrow types to f32 that are still to be moved.
  SmallVector<CastOp> casts;
};

} // namespace

static bool widens(CastOp op) {
  auto from = op.getX().getType();
  return isNarrowFloat(from) && op.getType() == fullPrecision(from);
}

/// Returns true if the result of an op consists of elements of the operands, or
/// of sums of such elements.
static bool addsOrMoves(Operation *op) {
  return isa_and_nonnull<AddOp>(op) || movesElements(op);
}

/// Follows the operands of ops backwards from the results of the program,
/// through ops that only move or add elements, and collects the casts from a
/// narrow type to f32 that it reaches.
void Widener::findCasts() {
  SmallVector<Value> work(program.getReturn().getValues());
  DenseSet<Value> seen(work.begin(), work.end());
  while (!work.empty()) {
    Operation *op = work.pop_back_val().getDefiningOp();
    if (auto cast = dyn_cast_or_null<CastOp>(op); cast && widens(cast))
      casts.push_back(cast);
    else if (addsOrMoves(op))
      for (Value operand : op->getOperands())
        if (seen.insert(operand).second)
          work.push_back(operand);
  }
}

/// Folds cast(cast(x)) to x if x is an f32 value, so that x is not rounded to
/// bf16. Such a pair of casts rounds the gradient of a parameter that the
/// forward pass rounds to bf16.
bool Widener::dropRounding(CastOp op) {
  auto rounding = op.getX().getDefiningOp<CastOp>();
  if (!rounding || rounding.getX().getType() != op.getType())
    return false;
  op.replaceAllUsesWith(rounding.getX());
  op.erase();
  if (rounding->use_empty())
    rounding.erase();
  return true;
}

/// If the operand of a cast to f32 is a sum that an op computes in f32 and then
/// rounds, removes the cast and makes the op return the sum in f32.
bool Widener::widenSum(CastOp op) {
  auto result = dyn_cast<OpResult>(op.getX());
  if (!result || !result.hasOneUse())
    return false;
  Operation *owner = result.getOwner();
  auto sum = dyn_cast<WideResultOpInterface>(owner);
  if (!sum || sum.getWideResult() != result.getResultNumber() ||
      owner->getBlock() != op->getBlock())
    return false;
  // Do not widen a matmul that accumulates, because the accumulator must have
  // the type of the result. Of the reductions, widen only sums.
  if (auto matmul = dyn_cast<MatmulOp>(owner); matmul && matmul.getAccumulate())
    return false;
  if (auto reduce = dyn_cast<ReduceOp>(owner);
      reduce && reduce.getKind() != Reduction::Sum)
    return false;
  result.setType(op.getType());
  op.replaceAllUsesWith(result);
  op.erase();
  return true;
}

/// Rewrites cast(f(x, ...)) to f(cast(x), ...) if f copies or adds elements.
/// Slices are not rewritten, because their operand is larger than their result.
bool Widener::raise(CastOp op) {
  Operation *source = op.getX().getDefiningOp();
  if (!addsOrMoves(source) || isa<SliceOp>(source) || !op.getX().hasOneUse() ||
      source->getBlock() != op->getBlock())
    return false;
  OpBuilder builder(source);
  for (OpOperand &operand : source->getOpOperands()) {
    auto cast = CastOp::create(builder, op.getLoc(),
                               fullPrecision(tensorTypeOf(operand.get())),
                               operand.get());
    operand.set(cast);
    casts.push_back(cast);
  }
  source->getResult(0).setType(op.getType());
  op.replaceAllUsesWith(source->getResult(0));
  op.erase();
  return true;
}

void Widener::run() {
  findCasts();
  while (!casts.empty()) {
    CastOp op = casts.pop_back_val();
    if (!dropRounding(op) && !widenSum(op))
      raise(op);
  }
}

namespace {

struct WidenGradientsPass : kiln::impl::WidenGradientsBase<WidenGradientsPass> {
  void runOnOperation() override {
    for (ProgramOp program : getOperation().getOps<ProgramOp>())
      if (program.getKind() == ProgramKind::Train)
        Widener(program).run();
  }
};

} // namespace
