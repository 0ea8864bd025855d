//===- PlaceTransfers.cpp - Places of data of all ranks ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

using namespace mlir;
using namespace kiln;

/// Returns true if the rows of a tensor are contiguous in memory.
static bool isDense(const Place &place, RankedTensorType type) {
  return place.rowStride == getColumnCount(type) || getRowCount(type) == 1;
}

/// Returns true if a buffer contains an operand of a collective.
static bool contains(int32_t buffer, ArrayRef<Place> operands) {
  return llvm::any_of(
      operands, [&](const Place &operand) { return operand.buffer == buffer; });
}

/// If the only user of `result` is an all-reduce whose sum is the new value of
/// a state, and no op after `dispatch` reads the old value of the state,
/// returns the location of the state, so that the sum is computed there.
/// Otherwise returns std::nullopt.
std::optional<Place> PlanBuilder::summedStatePlace(DispatchOp dispatch,
                                                   OpResult result) {
  if (!result.hasOneUse())
    return std::nullopt;
  OpOperand &use = *result.use_begin();
  auto start = dyn_cast<CollectiveStartOp>(use.getOwner());
  if (!start || start.getCollective() != Collective::AllReduce)
    return std::nullopt;
  Value sum = start.getWait()->getResult(use.getOperandNumber());
  for (Operation *user : sum.getUsers()) {
    auto write = dyn_cast<WriteOp>(user);
    if (!write || isReadAfter(write.getStateAttr().getAttr(), dispatch))
      continue;
    Place place = densePlace(
        stateBuffers.lookup(write.getStateAttr().getAttr()), result.getType());
    unsigned reads = 0, overwritten = 0;
    for (auto [i, input] : llvm::enumerate(dispatch.getInputs()))
      if (places.lookup(input).buffer == place.buffer) {
        ++reads;
        overwritten += input.getType() == result.getType() &&
                       mayWriteOver(dispatch, i, result.getResultNumber());
      }
    if (reads != overwritten || reads > 1)
      continue;
    summedInStates.insert(result);
    return place;
  }
  return std::nullopt;
}

/// Returns a buffer location that contains an operand of a collective and that
/// the collective may overwrite. Copies the operand if an op reads it later, if
/// it is not contiguous, or if its buffer contains one of the `earlier`
/// operands, so that no bytes are summed twice.
Place PlanBuilder::placeSummed(CollectiveStartOp start, Value value,
                               ArrayRef<Place> earlier) {
  auto type = tensorTypeOf(value);
  Place from = places.lookup(value);
  const Buffer &buffer = plan.buffers[from.buffer];
  bool dies = !buffer.state && buffer.slotClass != rt::SlotClass::Input &&
              buffer.lastUse <= order.lookup(start) &&
              !contains(from.buffer, earlier);
  if ((dies || summedInStates.contains(value)) && isDense(from, type))
    return from;
  Place copy = densePlace(newBuffer(describeOp(start), buffer.slotClass, type,
                                    "copy that is summed"),
                          type);
  emitCopy(from, copy, type);
  return copy;
}

/// Returns the buffer location of an operand that `op` reads. Copies the
/// operand if it is not contiguous.
Place PlanBuilder::densified(Operation *op, Value value) {
  auto type = tensorTypeOf(value);
  Place from = places.lookup(value);
  if (isDense(from, type))
    return from;
  Place copy =
      densePlace(newBuffer(describeOp(op), plan.buffers[from.buffer].slotClass,
                           type, "contiguous copy"),
                 type);
  emitCopy(from, copy, type);
  return copy;
}

/// Schedules the start of a collective. An all-reduce sums its operands in
/// place, a reduce-scatter uses their memory for partial sums, and an
/// all-gather writes the new value of a state to the buffer of the state.
void PlanBuilder::visitCollective(CollectiveStartOp start) {
  Command command;
  command.kind = Command::Kind::CollectiveStart;
  command.op = start;
  Collective collective = start.getCollective();
  for (Value value : start.getInputs())
    command.places.push_back(collective == Collective::AllGather
                                 ? densified(start, value)
                                 : placeSummed(start, value, command.places));
  CollectiveWaitOp wait = start.getWait();
  for (auto [i, token] : llvm::enumerate(start.getTokens())) {
    Place operand = command.places[i];
    rt::SlotClass slotClass = plan.buffers[operand.buffer].slotClass;
    std::optional<Place> place;
    if (collective == Collective::AllReduce)
      place = operand;
    else if (collective == Collective::AllGather)
      place = statePlace(wait->getResult(i), start);
    if (!place) {
      if (slotClass == rt::SlotClass::Parameter)
        slotClass = rt::SlotClass::Materialized;
      place = densePlace(
          newBuffer(describeOp(start), slotClass, token.getType(),
                    collective == Collective::AllGather ? "shards of all ranks"
                                                        : "shard of a sum"),
          token.getType());
    }
    setPlace(token, *place);
    command.places.push_back(*place);
  }
  plan.commands.push_back(std::move(command));
}

void PlanBuilder::visitCollectiveWait(CollectiveWaitOp wait) {
  Command command;
  command.kind = Command::Kind::TransferWait;
  command.op = wait.getStart();
  for (const Command &earlier : llvm::reverse(plan.commands))
    if (earlier.op == command.op) {
      command.places = earlier.places;
      break;
    }
  for (auto [token, output] :
       llvm::zip_equal(wait.getTokens(), wait.getOutputs()))
    setPlace(output, places.lookup(token));
  plan.commands.push_back(std::move(command));
}

void PlanBuilder::visitTakeShard(TakeShardOp take) {
  Place from = densified(take, take.getX());
  Type type = take.getShard().getType();
  Place to = densePlace(newBuffer(describeOp(take), rt::SlotClass::Activation,
                                  type, "shard of this rank"),
                        type);
  setPlace(take.getShard(), to);
  if (take.getOwner()) // The shard of the owner is the whole tensor.
    return emitCopy(from, to, take.getX().getType());
  Command command;
  command.kind = Command::Kind::CopyShard;
  command.op = take;
  command.places = {from, to};
  plan.commands.push_back(std::move(command));
}
