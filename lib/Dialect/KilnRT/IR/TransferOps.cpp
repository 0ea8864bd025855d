//===- TransferOps.cpp - Fills, copies and transfers ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandChecks.h"
#include "kiln/Dialect/Kiln/IR/ElementTypes.h"

using namespace mlir;
using namespace kiln::rt;
using namespace kiln;

int64_t FillOp::getBytes() { return viewOf(getTo()).getExtent(); }
int64_t CopyOp::getBytes() { return viewOf(getTo()).getExtent(); }

SmallVector<MemoryAccess> FillOp::getAccesses() {
  SmallVector<MemoryAccess> accesses;
  addAccesses(accesses, getTo(), Access::Write);
  return accesses;
}

SmallVector<MemoryAccess> CopyOp::getAccesses() {
  SmallVector<MemoryAccess> accesses;
  addAccesses(accesses, getFrom(), Access::Read);
  addAccesses(accesses, getTo(), Access::Write);
  return accesses;
}

static LogicalResult verifyDense(Operation *op) {
  for (Value place : op->getOperands())
    if (isa<PlaceType>(place.getType()) && !viewOf(place).isDense())
      return op->emitOpError("accesses a view of type ")
             << viewOf(place).getMemRefType()
             << ", which has padded rows: expected contiguous rows";
  return success();
}

LogicalResult FillOp::verify() { return verifyDense(*this); } // C1

static LogicalResult verifySizes(Operation *op, ViewOp from, ViewOp to) {
  if (from.getExtent() == to.getExtent())
    return success();
  return op->emitOpError("copies ")
         << from.getExtent() << " bytes to a destination of " << to.getExtent()
         << " bytes, expected equal sizes";
}

/// Verifies that a shard has the element type of the whole tensor, and between
/// N / n and N elements, where N is the number of elements of the whole tensor
/// and n is the number of ranks on `axis`.
static LogicalResult verifyShardSize(Operation *op, StringRef axis,
                                     ViewOp whole, ViewOp shard) {
  auto module = op->getParentOfType<ModuleOp>();
  if (!module)
    return success();
  int64_t ranks = meshSizeOf(module, axis);
  if (ranks == 0)
    return op->emitOpError("is over the axis '")
           << axis
           << "', which the module's attribute 'kiln.mesh' does not have";
  if (succeeded(
          checkShard(whole.getTensorType(), shard.getTensorType(), ranks)))
    return success();
  return op->emitOpError("has a shard of type ")
         << shard.getMemRefType() << " of a view of type "
         << whole.getMemRefType()
         << ", expected the same element type and between 1/" << ranks
         << " and all of the view's elements";
}

LogicalResult CopyOp::verify() {
  if (failed(verifyDense(*this)))
    return failure();
  ViewOp from = viewOf(getFrom()), to = viewOf(getTo());
  if (from.getSlotOp().getMemory() != to.getSlotOp().getMemory()) // C1
    return emitOpError("copies between device and host: use "
                       "kilnrt.begin copy");
  if (getAxis())
    return verifyShardSize(*this, *getAxis(), from, to);
  return verifySizes(*this, from, to);
}

LogicalResult FillOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyQueues(*this, /*isTransfer=*/false, tables);
}

LogicalResult CopyOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyQueues(*this, /*isTransfer=*/false, tables);
}

ViewOp BeginOp::getFrom() { return viewOf(getReads().front()); }
ViewOp BeginOp::getTo() { return viewOf(getWrites().front()); }

bool BeginOp::isOut() {
  return getKind() == TransferKind::Copy &&
         getTo().getSlotOp().getMemory() == MemorySpace::Host;
}

int64_t BeginOp::getBytes() {
  int64_t bytes = 0;
  bool readsWhole = !getReads().empty() && getKind() != TransferKind::AllGather;
  for (Value place : readsWhole ? getReads() : getWrites())
    bytes += viewOf(place).getExtent();
  return bytes;
}

Value BeginOp::getSignaledToken() { return getToken(); }

SmallVector<MemoryAccess> BeginOp::getAccesses() {
  SmallVector<MemoryAccess> accesses;
  addAccesses(accesses, getReads(), Access::Read);
  addAccesses(accesses, getWrites(), Access::Write);
  return accesses;
}

/// Verifies that no byte is in two of the memory operands.
static LogicalResult verifyDisjoint(BeginOp begin, ArrayRef<ViewOp> places) {
  SmallVector<ViewOp> sorted(places);
  llvm::sort(sorted, [](ViewOp a, ViewOp b) {
    return std::pair(a.getSlot().getAsOpaquePointer(), a.getOffset()) <
           std::pair(b.getSlot().getAsOpaquePointer(), b.getOffset());
  });
  for (size_t i = 1; i < sorted.size(); ++i)
    if (sorted[i].getSlot() == sorted[i - 1].getSlot() &&
        int64_t(sorted[i].getOffset() - sorted[i - 1].getOffset()) <
            sorted[i - 1].getExtent())
      return begin.emitOpError("has overlapping views of the slot '")
             << sorted[i].getSlotOp().getName() << "', expected disjoint views";
  return success();
}

static LogicalResult verifyCollective(BeginOp begin) {
  TransferKind kind = begin.getKind();
  SmallVector<ViewOp> reads(llvm::map_range(begin.getReads(), viewOf)),
      writes(llvm::map_range(begin.getWrites(), viewOf));
  size_t count = reads.size();
  bool readsWritten = kind != TransferKind::AllGather; // C3, C4
  size_t expected = kind == TransferKind::ReduceScatter ? 2 * count : count;
  if (count == 0 || writes.size() != expected ||
      (readsWritten &&
       !llvm::equal(begin.getReads(), begin.getWrites().take_front(count))))
    return begin.emitOpError("is ")
           << (kind == TransferKind::ReduceScatter ? "a " : "an ")
           << stringifyTransferKind(kind) << " that has " << count
           << " reads and " << writes.size() << " writes, expected "
           << (kind == TransferKind::AllReduce
                   ? "at least one read, and one write to each place that is "
                     "read"
               : kind == TransferKind::ReduceScatter
                   ? "at least one read, one write to each place that is read, "
                     "and then one write of a shard for each of them"
                   : "at least one read, and one write per read");
  SmallVector<ViewOp> all(writes);
  if (!readsWritten)
    llvm::append_range(all, reads);
  std::optional<ArrayRef<int64_t>> owners = begin.getOwners(); // C6
  if (owners && (kind == TransferKind::AllReduce || owners->size() != count))
    return begin.emitOpError("has ")
           << owners->size() << " owner ranks, expected "
           << (kind == TransferKind::AllReduce
                   ? "none, because all ranks get the sums"
                   : "one for each tensor");
  int64_t ranks =
      meshSizeOf(begin->getParentOfType<ModuleOp>(), *begin.getAxis());
  Type element = all.front().getElementType();
  for (ViewOp view : all)
    if (view.getSlotOp().getMemory() != MemorySpace::Device ||
        view.getElementType() != element ||
        (readsWritten && !isComputedReal(element) && !element.isInteger(8)))
      return begin.emitOpError("accesses a view of type ")
             << view.getMemRefType()
             << ", expected views in device memory that all have the same "
                "element type"
             << (readsWritten
                     ? ", either i8 or a float type in which kiln computes"
                     : "");
  for (size_t i = 0; i < count; ++i) {
    ViewOp whole = kind == TransferKind::AllGather ? writes[i] : reads[i];
    ViewOp shard = kind == TransferKind::AllGather       ? reads[i]
                   : kind == TransferKind::ReduceScatter ? writes[count + i]
                                                         : ViewOp();
    if (shard && !owners &&
        failed(verifyShardSize(begin, *begin.getAxis(), whole, shard)))
      return failure();
    if (!owners)
      continue;
    if (int64_t owner = (*owners)[i]; owner < 0 || owner >= ranks)
      return begin.emitOpError("names rank ")
             << owner << " as an owner, expected a rank below " << ranks;
    if (whole.getTensorType() != shard.getTensorType())
      return begin.emitOpError("has a view of type ")
             << shard.getMemRefType() << " of a tensor that rank "
             << (*owners)[i] << " owns, expected " << whole.getMemRefType()
             << ", because the owner has the whole tensor";
  }
  return verifyDisjoint(begin, all);
}

LogicalResult BeginOp::verify() {
  if (failed(verifyDense(*this))) // C1
    return failure();
  size_t reads = getReads().size(), writes = getWrites().size();
  auto reject = [&](StringRef expected) -> LogicalResult {
    return emitOpError("is a ")
           << stringifyTransferKind(getKind()) << " that has " << reads
           << " reads and " << writes << " writes, expected " << expected;
  };
  if (getAxis().has_value() != collectiveOf(getKind()).has_value()) // C2
    return emitOpError() << (getAxis()
                                 ? "is over an axis, but is no collective"
                                 : "is a collective without 'over', the axis "
                                   "of its ranks");
  switch (getKind()) {
  case TransferKind::AllReduce:
  case TransferKind::ReduceScatter:
  case TransferKind::AllGather:
    return verifyCollective(*this);
  case TransferKind::Send:
    return reads > 0 && writes == 0 ? success()
                                    : reject("at least one read and no write");
  case TransferKind::Receive:
    return reads == 0 && writes > 0 ? success()
                                    : reject("at least one write and no read");
  case TransferKind::Copy:
    break;
  }
  if (reads != 1 || writes != 1)
    return reject("one read and one write");
  if (getFrom().getSlotOp().getMemory() == getTo().getSlotOp().getMemory())
    return emitOpError("copies within one memory: use kilnrt.copy");
  return verifySizes(*this, getFrom(), getTo());
}

LogicalResult BeginOp::verifySymbolUses(SymbolTableCollection &tables) {
  return verifyQueues(*this, /*isTransfer=*/true, tables);
}

Value WaitOp::getAwaitedToken() { return getToken(); }

SmallVector<FlatSymbolRefAttr> WaitOp::getQueues() {
  SmallVector<FlatSymbolRefAttr> queues{getQueueAttr()};
  if (ArrayAttr too = getTooAttr())
    llvm::append_range(queues, too.getAsRange<FlatSymbolRefAttr>());
  return queues;
}

LogicalResult WaitOp::verifySymbolUses(SymbolTableCollection &tables) {
  for (FlatSymbolRefAttr queue : getQueues())
    if (!tables.lookupNearestSymbolFrom<QueueOp>(*this, queue))
      return emitOpError("blocks ") << queue << ", which is not a kilnrt.queue";
  return success();
}
