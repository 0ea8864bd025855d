//===- RebuildActivations.cpp - Recomputation of cheap forward ops --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A residual r = f(x) of a cheap op f is recomputed if an op G of the backward
// pass reads x anyway. Directly before G, the pass inserts:
//
//   %r2 = kiln.recompute(%x, ...) { f }
//   ... = G(%x, ...)
//   users of r, which now read %r2 (typically the weight gradient r^T dy)
//
// The users move after G, so that f and G can be fused into one kernel. %r2 is
// live only between G and the users.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_REBUILDACTIVATIONS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

/// Describes how to recompute a value: the ops to run and their inputs.
struct Recipe {
  Value residual;
  /// The operands of the original op with as many elements as `residual`.
  SmallVector<Value, 2> sources;
  /// All inputs of the recompute region.
  SmallVector<Value, 4> inputs;
  /// Builds the value from the region's arguments.
  llvm::function_ref<Value(OpBuilder &, ValueRange)> build;
};

class Rebuilder {
public:
  explicit Rebuilder(ProgramOp program) : block(program.getBlock()) {}
  void run();

private:
  bool isBackward(Operation *op) { return phase->isBeforeInBlock(op); }
  void rebuild(const Recipe &recipe);
  void rebuildNorm(Operation *norm, Value gamma, Value beta,
                   ValueRange statistics);
  void rebuildCheap(Operation *op);

  Block &block;
  Operation *phase = nullptr;
};

} // namespace

void Rebuilder::rebuild(const Recipe &recipe) {
  SmallVector<Operation *> users;
  for (Operation *user : recipe.residual.getUsers())
    if (isBackward(user) && !llvm::is_contained(users, user))
      users.push_back(user);
  if (users.empty())
    return;
  llvm::sort(users,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });

  // Find G: the last backward op that reads a value in recipe.sources, is after
  // the first backward user of the residual, and does not read the residual.
  Operation *reader = nullptr;
  for (Value source : recipe.sources) {
    bool kept = false;
    for (Operation *user : source.getUsers()) {
      if (!isBackward(user) || llvm::is_contained(users, user))
        continue;
      kept = true;
      if (users.front()->isBeforeInBlock(user) &&
          (!reader || reader->isBeforeInBlock(user)))
        reader = user;
    }
    if (!kept && source.getDefiningOp())
      return; // Every backward op that reads the source also reads the
              // residual.
  }
  if (!reader)
    return;

  // Move each user that precedes G to after G. If G or an earlier op reads a
  // result of such a user, do not recompute the residual.
  Operation *last = reader;
  SmallVector<Operation *> moving;
  for (Operation *user : users) {
    if (reader->isBeforeInBlock(user))
      continue;
    for (Operation *next : user->getUsers())
      if (!reader->isBeforeInBlock(next))
        return;
    moving.push_back(user);
  }
  for (Operation *user : moving) {
    user->moveAfter(last);
    last = user;
  }

  OpBuilder builder(reader);
  Location loc = recipe.residual.getLoc();
  auto recompute = RecomputeOp::create(builder, loc, recipe.residual.getType(),
                                       recipe.inputs);
  openIsolatedBody(builder, recompute, recipe.inputs);
  YieldOp::create(
      builder, loc,
      recipe.build(builder, recompute.getBody().front().getArguments()));
  Value residual = recipe.residual;
  residual.replaceUsesWithIf(recompute->getResult(0), [&](OpOperand &use) {
    return llvm::is_contained(users, use.getOwner());
  });
}

void Rebuilder::rebuildNorm(Operation *norm, Value gamma, Value beta,
                            ValueRange statistics) {
  Recipe recipe;
  recipe.residual = norm->getResult(0);
  recipe.sources = {norm->getOperand(0)};
  recipe.inputs = {norm->getOperand(0), gamma};
  if (beta)
    recipe.inputs.push_back(beta);
  llvm::append_range(recipe.inputs, statistics);
  auto build = [&](OpBuilder &builder, ValueRange arguments) -> Value {
    size_t first = beta ? 3 : 2;
    // Normalize in full precision and round only after gain and shift, as the
    // norm op does.
    Value normalized = NormalizeOp::create(
        builder, norm->getLoc(), fullPrecision(tensorTypeOf(recipe.residual)),
        arguments[0], arguments.drop_front(first));
    return AffineOp::create(builder, norm->getLoc(), recipe.residual.getType(),
                            normalized, arguments[1],
                            beta ? arguments[2] : Value());
  };
  recipe.build = build;
  rebuild(recipe);
}

void Rebuilder::rebuildCheap(Operation *op) {
  Recipe recipe;
  recipe.residual = op->getResult(0);
  for (Value operand : op->getOperands()) {
    recipe.inputs.push_back(operand);
    if (tensorTypeOf(operand).getNumElements() ==
        tensorTypeOf(recipe.residual).getNumElements())
      recipe.sources.push_back(operand);
  }
  auto build = [&](OpBuilder &builder, ValueRange arguments) -> Value {
    IRMapping mapping;
    mapping.map(op->getOperands(), arguments);
    return builder.clone(*op, mapping)->getResult(0);
  };
  recipe.build = build;
  rebuild(recipe);
}

void Rebuilder::run() {
  for (Operation &op : block)
    if (isa<PhaseOp>(op))
      phase = &op;
  if (!phase)
    return;
  SmallVector<Operation *> forward;
  for (Operation &op : block) {
    if (&op == phase)
      break;
    forward.push_back(&op);
  }
  for (Operation *op : forward) {
    if (auto norm = dyn_cast<LayerNormOp>(op)) {
      rebuildNorm(norm, norm.getGamma(), norm.getBeta(),
                  {norm.getMean(), norm.getRstd()});
    } else if (auto norm = dyn_cast<RmsNormOp>(op)) {
      rebuildNorm(norm, norm.getGamma(), Value(), {norm.getRstd()});
    } else if (auto dispatchable = dyn_cast<DispatchableOpInterface>(op)) {
      if (dispatchable.isCheapToRebuild())
        rebuildCheap(op);
    }
  }
}

namespace {

struct RebuildActivationsPass
    : kiln::impl::RebuildActivationsBase<RebuildActivationsPass> {
  void runOnOperation() override {
    for (ProgramOp program : getOperation().getOps<ProgramOp>())
      if (program.getKind() == ProgramKind::Train)
        Rebuilder(program).run();
  }
};

} // namespace
