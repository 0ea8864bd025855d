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

#include "RebuiltOps.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

namespace kiln {
#define GEN_PASS_DEF_REBUILDACTIVATIONS
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

namespace {

class Rebuilder {
public:
  explicit Rebuilder(ProgramOp program) : block(program.getBlock()) {}
  void run();

private:
  bool isBackward(Operation *op) { return phase->isBeforeInBlock(op); }
  void rebuild(const RebuiltOp &rebuilt);

  Block &block;
  Operation *phase = nullptr;
};

} // namespace

void Rebuilder::rebuild(const RebuiltOp &rebuilt) {
  SmallVector<Operation *> users;
  for (Operation *user : rebuilt.residual.getUsers())
    if (isBackward(user) && !llvm::is_contained(users, user))
      users.push_back(user);
  if (users.empty())
    return;
  llvm::sort(users,
             [](Operation *a, Operation *b) { return a->isBeforeInBlock(b); });

  // Find G: the last backward op that reads a value in rebuilt.sources, is
  // after the first backward user of the residual, and does not read the
  // residual.
  Operation *reader = nullptr;
  for (Value source : rebuilt.sources) {
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

  // Move each user of the residual that precedes `reader` to a position after
  // `reader`. If `reader` or an earlier op reads a result of such a user, do
  // not recompute the residual.
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
  Value again = buildAgain(builder, rebuilt);
  Value residual = rebuilt.residual;
  residual.replaceUsesWithIf(again, [&](OpOperand &use) {
    return llvm::is_contained(users, use.getOwner());
  });
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
  for (Operation *op : forward)
    if (std::optional<RebuiltOp> rebuilt = findRebuilt(op))
      rebuild(*rebuilt);
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
