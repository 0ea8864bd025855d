//===- WidenGradients.cpp - Gradients of masters in full precision --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Moves the casts from bf16 to f32 through which a program's gradients come
// towards the ops that add them up. A cast passes an op only if it is the only
// reader of the op's result: nothing is computed twice. What the forward pass
// casts stays as it is. Every step takes a cast away or moves it up: linear in
// the program.
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
  SmallVector<CastOp> casts; ///< of bf16 to f32, still to be moved
};

} // namespace

static bool widens(CastOp op) {
  auto from = op.getX().getType();
  return isNarrowFloat(from) && op.getType() == fullPrecision(from);
}

/// Whether a gradient that an op returns is one of its operands, or their sum.
static bool addsOrMoves(Operation *op) {
  return isa_and_nonnull<AddOp>(op) || movesElements(op);
}

/// The casts between what the program returns and the ops that compute it.
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

/// cast(cast(f32)) -> f32: what a derivative rounded, for a parameter that was
/// rounded in the forward pass.
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

/// cast(sum in f32, rounded) -> sum in f32.
bool Widener::widenSum(CastOp op) {
  auto result = dyn_cast<OpResult>(op.getX());
  if (!result || !result.hasOneUse())
    return false;
  Operation *owner = result.getOwner();
  auto sum = dyn_cast<WideResultOpInterface>(owner);
  if (!sum || sum.getWideResult() != result.getResultNumber() ||
      owner->getBlock() != op->getBlock())
    return false;
  // What is added to has the type of the result; a maximum is no sum.
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

/// cast(f(x, ...)) -> f(cast(x), ...) where f copies elements or adds them. A
/// slice stays: what it is cut from is larger.
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
