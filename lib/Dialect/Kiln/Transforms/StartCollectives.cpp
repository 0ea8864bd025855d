//===- StartCollectives.cpp - Asynchronous collectives ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StartCollectives.h"

#include "kiln/Dialect/Kiln/IR/Layer.h"

using namespace mlir;
using namespace kiln;

/// Returns the first op of the block of `op`, after `op`, that reads a result of
/// `op`, or the terminator of the block.
static Operation *firstReader(Operation *op) {
  Block *block = op->getBlock();
  Operation *first = block->getTerminator();
  for (Operation *user : op->getUsers())
    if (Operation *reader = block->findAncestorOpInBlock(*user);
        reader->isBeforeInBlock(first))
      first = reader;
  return first;
}

static void startReduce(AllReduceOp reduce) {
  OpBuilder builder(reduce);
  auto start = AllReduceStartOp::create(builder, reduce.getLoc(),
                                        reduce.getInputs(), reduce.getAxis());
  builder.setInsertionPoint(firstReader(reduce));
  auto wait =
      AllReduceWaitOp::create(builder, reduce.getLoc(), start.getTokens());
  for (Operation *op : {start.getOperation(), wait.getOperation()})
    copyLayer(reduce, op);
  reduce.replaceAllUsesWith(wait.getSums());
  reduce.erase();
}

bool kiln::startCollectives(ProgramOp program) {
  SmallVector<AllReduceOp> reduces(program.getBlock().getOps<AllReduceOp>());
  for (AllReduceOp reduce : reduces)
    startReduce(reduce);
  return !reduces.empty();
}
