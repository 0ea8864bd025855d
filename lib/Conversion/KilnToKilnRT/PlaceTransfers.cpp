//===- PlaceTransfers.cpp - Places of sums over ranks -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

using namespace mlir;
using namespace kiln;

/// Schedules the start of an all-reduce, which sums its operands in place. An
/// operand that an op reads later, or that is not contiguous, is copied first.
void PlanBuilder::visitReduce(AllReduceStartOp start) {
  Command command;
  command.kind = Command::Kind::ReduceStart;
  command.op = start;
  for (auto [value, token] :
       llvm::zip_equal(start.getInputs(), start.getTokens())) {
    auto type = cast<RankedTensorType>(value.getType());
    Place from = places.lookup(value);
    const Buffer &buffer = plan.buffers[from.buffer];
    bool isDense =
        from.rowStride == getColumnCount(type) || getRowCount(type) == 1;
    bool dies = !buffer.state && buffer.slotClass != rt::SlotClass::Input &&
                buffer.lastUse <= order.lookup(start);
    if (dies && isDense) {
      setPlace(token, from);
    } else {
      setPlace(token, densePlace(newBuffer(describeOp(start), buffer.slotClass,
                                           type, "copy that is summed"),
                                 type));
      emitCopy(from, places.lookup(token), type);
    }
    command.places.push_back(places.lookup(token));
  }
  plan.commands.push_back(std::move(command));
}

void PlanBuilder::visitReduceWait(AllReduceWaitOp wait) {
  Command command;
  command.kind = Command::Kind::TransferWait;
  command.op = wait.getStart();
  for (auto [token, sum] : llvm::zip_equal(wait.getTokens(), wait.getSums())) {
    setPlace(sum, places.lookup(token));
    command.places.push_back(places.lookup(token));
  }
  plan.commands.push_back(std::move(command));
}
