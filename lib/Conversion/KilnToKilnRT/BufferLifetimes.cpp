//===- BufferLifetimes.cpp - Lifetimes and owners of buffers --------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;

/// Adjusts the buffers that commands of micro-batches access:
///   - A buffer that is also accessed outside of micro-batches lives throughout
///     the forward and the backward segment. A buffer whose lifetime begins in
///     the last execution of the backward segment stays unchanged.
///   - If several micro-batches may be in flight, a buffer that is accessed in
///     both segments, and nowhere else, gets one instance per micro-batch in
///     flight.
///   - A residual that needs several instances, but is also accessed outside of
///     micro-batches, is an error.
LogicalResult PlanBuilder::spanMicrobatches() {
  MicrobatchesOp op = plan.microbatches.op;
  auto [unused, begin, backward, end] = plan.microbatches;
  int64_t slots = op.getSegmentOrder().slots(op.getCount());
  // Inputs, outputs and sums are not private to a micro-batch: the caller
  // writes inputs before the first command and reads outputs after the last
  // one, and all micro-batches add to the same sums.
  llvm::SmallDenseSet<int32_t> inputs, outputs, shared;
  for (const Boundary &input : plan.inputs)
    inputs.insert(input.place.buffer);
  for (const Boundary &output : plan.outputs)
    outputs.insert(output.place.buffer);
  auto isBoundary = [&](int32_t buffer) {
    return inputs.contains(buffer) || outputs.contains(buffer);
  };
  shared = outputs;
  for (Value sum : op.getSums())
    shared.insert(places.lookup(sum).buffer);
  // The buffers that the backward segment accesses, and the buffers that it
  // accesses in other executions than its last one.
  llvm::DenseSet<int32_t> inBackward, inSeveral;
  for (const Command &command :
       ArrayRef(plan.commands).slice(backward, end - backward))
    for (const Place &place : command.places) {
      inBackward.insert(place.buffer);
      if (command.when != rt::When::Last)
        inSeveral.insert(place.buffer);
    }
  for (auto [i, buffer] : llvm::enumerate(plan.buffers)) {
    auto index = static_cast<int32_t>(i);
    if (buffer.state || buffer.last < begin || buffer.first >= end)
      continue;
    bool beginsInLast = buffer.first >= backward && buffer.last >= end &&
                        !inSeveral.contains(index) && !shared.contains(index);
    if (beginsInLast)
      continue;
    bool isResidual = buffer.first >= begin && buffer.first < backward &&
                      inBackward.contains(index) && !inputs.contains(index);
    if (buffer.first < begin || buffer.last >= end || shared.contains(index) ||
        inputs.contains(index)) {
      if (isResidual && slots > 1)
        return op.emitOpError("stores the residual '")
               << buffer.name
               << "' in memory that is also accessed outside of micro-batches, "
                  "so at most one micro-batch may be in flight, but the order "
                  "of segments keeps up to "
               << slots << " in flight";
      buffer.first = std::min(buffer.first, begin);
      buffer.last = std::max(buffer.last, end - 1);
      // A lifetime within the forward and backward segments would begin and end
      // in every micro-batch, but a sum over micro-batches lives throughout all
      // of them. If no command outside of the segments accesses the sum, extend
      // its lifetime by one command outside of the segments.
      if (!isBoundary(index) && buffer.first == begin &&
          buffer.last == end - 1) {
        if (end < static_cast<int64_t>(plan.commands.size()))
          buffer.last = end;
        else
          buffer.first = std::max<int64_t>(begin - 1, 0);
      }
    } else if (isResidual && slots > 1) {
      buffer.instances = slots;
      buffer.ringStride = static_cast<int64_t>(
          llvm::alignTo(buffer.bytes, target.getAlignment(buffer.slotClass)));
    }
  }
  return success();
}

/// Computes the lifetime of each buffer, from the first to the last command
/// that accesses it.
LogicalResult PlanBuilder::computeLifetimes() {
  auto touch = [&](int32_t buffer, int64_t command) {
    Buffer &b = plan.buffers[buffer];
    b.first = std::min(b.first, command);
    b.last = std::max(b.last, command);
  };
  for (auto [i, command] : llvm::enumerate(plan.commands)) {
    for (const Place &place : command.places)
      touch(place.buffer, i);
    if (command.scratch >= 0)
      touch(command.scratch, i);
  }
  int64_t end = static_cast<int64_t>(plan.commands.size()) - 1;
  for (const Boundary &input : plan.inputs)
    touch(input.place.buffer, 0);
  for (const Boundary &output : plan.outputs)
    touch(output.place.buffer, std::max<int64_t>(end, 0));
  if (plan.microbatches.op && failed(spanMicrobatches()))
    return failure();
  for (size_t i = 0; i < states.size(); ++i) {
    plan.buffers[i].first = 0;
    plan.buffers[i].last = std::max<int64_t>(end, 0);
  }
  return success();
}

/// Sets the owner of each buffer that only one rank has. A buffer with values
/// of all ranks, or of different owners, has no owner.
LogicalResult PlanBuilder::findOwners() {
  Owners owners(plan.program);
  if (Operation *conflict = owners.findConflict())
    return conflict->emitOpError(
        "has operands that different ranks own, so no rank has all of them");
  std::vector<bool> isShared(plan.buffers.size());
  for (auto [value, place] : places) {
    Buffer &buffer = plan.buffers[place.buffer];
    int64_t owner = owners.ownerOf(value);
    isShared[place.buffer] =
        isShared[place.buffer] || owner == kNoOwner ||
        (buffer.owner != kNoOwner && buffer.owner != owner);
    buffer.owner = owner;
  }
  for (auto [buffer, shared] : llvm::zip_equal(plan.buffers, isShared)) {
    if (shared)
      buffer.owner = kNoOwner;
    if (buffer.state)
      buffer.owner = ownerOf(buffer.state);
  }
  return success();
}
