//===- StartCollectives.cpp - Asynchronous collectives ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StartCollectives.h"

#include "StateGathers.h"
#include "kiln/Dialect/Kiln/IR/Layer.h"
#include "kiln/Dialect/Kiln/IR/Owners.h"

using namespace mlir;
using namespace kiln;

Operation *kiln::firstReader(Operation *op) {
  Block *block = op->getBlock();
  Operation *first = block->getTerminator();
  for (Operation *user : op->getUsers())
    if (Operation *reader = block->findAncestorOpInBlock(*user);
        reader->isBeforeInBlock(first))
      first = reader;
  return first;
}

/// Divides a collective into a start, at `position`, and a wait. Returns the
/// wait.
static CollectiveWaitOp start(CollectiveOpInterface collective,
                              Operation *position) {
  Operation *op = collective;
  OpBuilder builder(position);
  auto start = CollectiveStartOp::create(
      builder, op->getLoc(), op->getResultTypes(), collective.getCollective(),
      op->getOperands(), collective.getAxisAttr(), ownersAttrOf(op));
  builder.setInsertionPoint(firstReader(op));
  auto wait =
      CollectiveWaitOp::create(builder, op->getLoc(), start.getTokens());
  copyLayer(op, start);
  // Discardable attributes, such as marks of results to offload, apply to the
  // results of the wait.
  wait->setDiscardableAttrs(op->getDiscardableAttrDictionary());
  op->replaceAllUsesWith(wait.getOutputs());
  op->erase();
  return wait;
}

/// Starts all-gathers of states. Each all-gather starts when the readers of the
/// previous one begin, so that the transfer overlaps with these readers.
/// Usually, the results of at most two all-gathers are in memory.
static void startGathers(ArrayRef<AllGatherOp> gathers) {
  CollectiveWaitOp previous;
  for (AllGatherOp gather : gathers) {
    Operation *position = gather;
    if (previous && previous->isBeforeInBlock(gather))
      position = previous->getNextNode();
    moveSourcesBefore(gather.getInputs(), position);
    previous = start(gather, position);
  }
}

/// Returns the all-gathers of states in a block, in program order.
static SmallVector<AllGatherOp> findGathers(Block &block) {
  SmallVector<AllGatherOp> gathers;
  for (auto gather : block.getOps<AllGatherOp>())
    if (gathersStates(gather))
      gathers.push_back(gather);
  return gathers;
}

/// Starts the all-gathers of states in micro-batches. Each all-gather starts in
/// the forward or backward segment that contains its first reader.
static void startGathers(MicrobatchesOp microbatches) {
  Operation *begin = findBackwardSegment(microbatches);
  SmallVector<AllGatherOp> forward, backward;
  for (AllGatherOp gather : findGathers(microbatches.getBody())) {
    if (firstReader(gather)->isBeforeInBlock(begin)) {
      forward.push_back(gather);
      continue;
    }
    if (gather->isBeforeInBlock(begin))
      gather->moveBefore(begin);
    backward.push_back(gather);
  }
  startGathers(forward);
  startGathers(backward);
}

bool kiln::startCollectives(ProgramOp program) {
  startGathers(findGathers(program.getBlock()));
  for (auto microbatches : program.getBlock().getOps<MicrobatchesOp>())
    startGathers(microbatches);
  SmallVector<CollectiveOpInterface> others;
  program.walk(
      [&](CollectiveOpInterface collective) { others.push_back(collective); });
  for (CollectiveOpInterface collective : others)
    start(collective, collective);
  return program.walk([](CollectiveStartOp) { return WalkResult::interrupt(); })
      .wasInterrupted();
}
