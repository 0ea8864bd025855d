//===- DivideMicrobatches.cpp - Forward and backward segments ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Divides the region of kiln.microbatches into a forward and a backward
// segment. Passes that plan memory see a micro-batch as one block; this pass
// runs after them, when the positions of all commands are final.
//
// The backward segment begins with the loss, which is computed together with
// its gradients. Consequently, all sums over micro-batches (of losses and
// gradients) are computed in backward segments, and the logits are not
// residuals.
//
//===----------------------------------------------------------------------===//

#include "StateGathers.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/Kiln/Transforms/Passes.h"

#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SmallPtrSet.h"

namespace kiln {
#define GEN_PASS_DEF_DIVIDEMICROBATCHES
#include "kiln/Dialect/Kiln/Transforms/Passes.h.inc"
} // namespace kiln

using namespace mlir;
using namespace kiln;

/// Returns true for the start of a copy between device and host, and for the
/// wait for such a copy.
static bool isCopy(Operation *op) {
  return isa<CopyInOp, CopyOutOp, CopyWaitOp>(op);
}

/// Returns the op that defines the memory of `value`, which may be a view.
static Operation *getStoringOp(Value value) {
  Operation *op = value.getDefiningOp();
  while (op && familyOf(op) == Family::View)
    op = op->getOperand(0).getDefiningOp();
  return op;
}

/// Returns true if each op between `first` and `last`, except views and copies,
/// reads results of `first` and computes operands of `last`, directly or
/// through other such ops. An example is the exchange of sums over classes
/// between the logits and their loss.
static bool formChain(Operation *first, Operation *last) {
  llvm::SmallPtrSet<Operation *, 16> dependent = {first}, needed = {last};
  auto isAside = [](Operation *op) {
    return isCopy(op) || familyOf(op) == Family::View;
  };
  for (Operation *op = first->getNextNode(); op != last;
       op = op->getNextNode()) {
    bool depends = llvm::any_of(op->getOperands(), [&](Value operand) {
      return dependent.contains(operand.getDefiningOp());
    });
    if (depends)
      dependent.insert(op);
    else if (!isAside(op))
      return false;
  }
  for (Operation *op = last->getPrevNode(); op != first;
       op = op->getPrevNode()) {
    if (llvm::any_of(op->getUsers(),
                     [&](Operation *user) { return needed.contains(user); }))
      needed.insert(op);
    else if (!isAside(op))
      return false;
  }
  return true;
}

Operation *kiln::findBackwardSegment(MicrobatchesOp op) {
  Value lossScale =
      op->getParentOfType<ProgramOp>().getInput(InputRole::LossScale);
  Block &body = op.getBody();
  auto reads = [&](Operation &user) {
    return llvm::any_of(user.getOperands(), [&](Value operand) {
      return operand == lossScale ||
             llvm::is_contained(op.getSumArguments(), operand);
    });
  };
  auto found = llvm::find_if(body, reads);
  Operation *begin = found == body.end() ? body.getTerminator() : &*found;
  for (Value operand : begin->getOperands())
    if (Operation *logits = getStoringOp(operand);
        logits && logits->getBlock() == &body && isa<GemmOpInterface>(logits) &&
        formChain(logits, begin)) {
      begin = logits;
      break;
    }
  // The backward segment also contains the all-gathers of states directly
  // before it, and the ops that compute the shards that are gathered. Copies
  // may be between these ops.
  llvm::SmallPtrSet<Operation *, 8> starts;
  auto gathers = [&](Operation *op) {
    auto start = dyn_cast<CollectiveStartOp>(op);
    if (auto wait = dyn_cast<CollectiveWaitOp>(op))
      start = wait.getStart();
    bool isGather = start && start.getCollective() == Collective::AllGather &&
                    llvm::all_of(start.getInputs(), isFromState);
    bool computesShards = !op->use_empty() && isFromState(op->getResult(0)) &&
                          llvm::all_of(op->getUsers(), [&](Operation *user) {
                            return starts.contains(user);
                          });
    if (isGather || computesShards)
      starts.insert(op);
    return isGather || computesShards;
  };
  for (Operation *op = begin->getPrevNode(); op; op = op->getPrevNode())
    if (gathers(op))
      begin = op;
    else if (!isCopy(op))
      break;
  return begin;
}

namespace {

class Divider {
public:
  explicit Divider(MicrobatchesOp op) : op(op) {}
  void run();

private:
  Value inBackward(Value value);

  MicrobatchesOp op;
  Block *forward = nullptr, *backward = nullptr;
  SmallVector<Value> residuals;
  /// Maps values of the forward segment to values of the backward segment.
  DenseMap<Value, Value> mapped;
  /// The last view that was cloned into the backward segment, or null.
  Operation *lastView = nullptr;
};

} // namespace

/// Returns the value that the backward segment uses instead of `value`, which
/// is defined in the forward segment. A view is cloned, so that residuals are
/// whole buffers.
Value Divider::inBackward(Value value) {
  if (Value found = mapped.lookup(value))
    return found;
  Operation *def = value.getDefiningOp();
  Value result;
  if (def && familyOf(def) == Family::View) {
    Value source = def->getOperand(0);
    IRMapping mapping;
    if (source.getParentBlock() == forward)
      mapping.map(source, inBackward(source));
    auto builder = OpBuilder::atBlockBegin(backward);
    if (lastView)
      builder.setInsertionPointAfter(lastView);
    lastView = builder.clone(*def, mapping);
    result = lastView->getResult(0);
  } else {
    result = backward->insertArgument(op.getSliced().size() + residuals.size(),
                                      value.getType(), value.getLoc());
    residuals.push_back(value);
  }
  return mapped[value] = result;
}

void Divider::run() {
  forward = &op.getBody();
  Operation *begin = findBackwardSegment(op);
  unsigned parts = op.getSliced().size();

  // Create the op again with two regions, because the number of regions of an
  // op is fixed.
  OpBuilder builder(op);
  auto divided = MicrobatchesOp::create(builder, op.getLoc(),
                                        op.getResultTypes(), op.getSliced(),
                                        op.getCountAttr(), op.getOrderAttr(),
                                        /*segmentsCount=*/2);
  divided->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  Region &first = divided.getSegments()[0];
  backward = new Block();
  divided.getSegments()[1].push_back(backward);
  for (BlockArgument argument : forward->getArguments()) {
    Value copy = backward->addArgument(argument.getType(), argument.getLoc());
    mapped[argument] = copy;
  }
  backward->getOperations().splice(backward->end(), forward->getOperations(),
                                   Block::iterator(begin), forward->end());
  for (Operation &user : llvm::make_early_inc_range(*backward))
    user.walk([&](Operation *inner) {
      for (OpOperand &operand : inner->getOpOperands())
        if (operand.get().getParentBlock() == forward)
          operand.set(inBackward(operand.get()));
    });
  forward->eraseArguments(parts, op.getNumResults());
  builder.setInsertionPointToEnd(forward);
  YieldOp::create(builder, op.getLoc(), residuals);
  first.takeBody(op.getSegments().front());
  op.replaceAllUsesWith(divided.getResults());
  op.erase();
}

namespace {

struct DivideMicrobatchesPass
    : kiln::impl::DivideMicrobatchesBase<DivideMicrobatchesPass> {
  void runOnOperation() override {
    bool changed = false;
    for (ProgramOp program : getOperation().getOps<ProgramOp>()) {
      for (MicrobatchesOp op : llvm::make_early_inc_range(
               program.getBlock().getOps<MicrobatchesOp>()))
        if (!op.isDivided()) {
          Divider(op).run();
          changed = true;
        }
    }
    if (!changed)
      markAllAnalysesPreserved();
  }
};

} // namespace
