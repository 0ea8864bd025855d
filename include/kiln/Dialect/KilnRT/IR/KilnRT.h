//===- KilnRT.h - The KilnRT dialect ----------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILNRT_IR_KILNRT_H
#define KILN_DIALECT_KILNRT_IR_KILNRT_H

#include "kiln/Abi/GemmEpilogue.h"
#include "kiln/Abi/GemmKernel.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/Kiln/IR/Owners.h"

#include "mlir/IR/OpImplementation.h"

#include "kiln/Dialect/KilnRT/IR/KilnRTDialect.h.inc"
#include "kiln/Dialect/KilnRT/IR/KilnRTEnums.h.inc"

namespace kiln::rt {

class BeginOp;
class KernelOp;
class SlotOp;
class ViewOp;

/// An access of a command to a slot.
struct MemoryAccess {
  mlir::Value slot; ///< Result of a SlotOp.
  mlir::Value view; ///< Result of a ViewOp; null for scratch memory.
  Access access;

  bool reads() const { return access != Access::Write; }
  bool writes() const { return access != Access::Read; }
};

/// Verifies that every operand of a command is the result of a kilnrt.slot, of
/// a kilnrt.token, or of a valid kilnrt.view, and that a command whose `when`
/// is not Always is in micro-batches.
llvm::LogicalResult verifyCommand(mlir::Operation *command);

} // namespace kiln::rt

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTTypes.h.inc"

#include "kiln/Dialect/KilnRT/IR/KilnRTInterfaces.h.inc"

#define GET_OP_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTOps.h.inc"

namespace kiln::rt {

/// Return the kilnrt.slot or kilnrt.view that defines an operand of a command.
inline SlotOp slotOf(mlir::Value slot) { return slot.getDefiningOp<SlotOp>(); }
inline ViewOp viewOf(mlir::Value place) {
  return place.getDefiningOp<ViewOp>();
}

/// Returns the type of a view of a tensor in `memory` whose rows begin
/// `rowPitch` elements apart.
mlir::MemRefType viewType(mlir::RankedTensorType tensor, int64_t rowPitch,
                          MemorySpace memory);

/// Returns the commands of a program in program order: the commands of a
/// forward segment are followed by those of the backward segment. Slot
/// lifetimes are ranges of indices into this list.
llvm::SmallVector<mlir::Operation *> commandsOf(ProgramOp program);

/// The commands of micro-batches, as indices into commandsOf(): the forward
/// segment is [forward, backward), the backward segment is [backward, end).
struct MicrobatchCommands {
  MicrobatchesOp op;
  int64_t forward = 0, backward = 0, end = 0;
};
/// Returns the micro-batches of a program, or std::nullopt if it has none.
std::optional<MicrobatchCommands> microbatchesOf(ProgramOp program);

/// One execution of the commands [begin, end). `run` has the segment (forward
/// or backward) and the micro-batch that are executed; it is std::nullopt for
/// the commands before and after the micro-batches.
struct SegmentExecution {
  int64_t begin = 0, end = 0;
  std::optional<abi::SegmentRun> run;
};
/// Returns the executions of all commands of a program, in order. If
/// `shortened` is set, returns the executions for fewer micro-batches. Checks
/// of consecutive segments give the same result for them (see
/// SegmentOrder::shortened()).
std::vector<SegmentExecution> executionsOf(ProgramOp program,
                                           bool shortened = false);

/// Returns true if `execution` executes `command`. The range of commands of
/// `execution` must contain `command`. The command is nevertheless skipped if
/// its attribute `when` selects a different execution (the first or the last).
bool isExecuted(mlir::Operation *command, const SegmentExecution &execution);

/// Returns true if a slot is live from a command of the last execution of the
/// backward segment to a command after the micro-batches. In the segments, only
/// commands that are `when last` access such a slot. Any other slot that is
/// accessed both in and outside of micro-batches is live in all executions.
bool beginsInLastExecution(SlotOp slot,
                           const std::optional<MicrobatchCommands> &commands);

/// Returns the range of commands, as the first and the last one, during which
/// no other slot may share bytes with `slot`. For a slot with a ring (several
/// instances), the range is the forward and the backward segment, because
/// instances for other micro-batches are live. For any other slot, it is the
/// lifetime of the slot.
std::pair<int64_t, int64_t>
occupancyOf(SlotOp slot, const std::optional<MicrobatchCommands> &microbatches);

/// Returns the only data-parallel rank that has a slot, or kNoOwner if all
/// ranks have it.
int64_t ownerOf(SlotOp slot);
/// Returns the owner of the slots that a command accesses: only this rank
/// executes the command. Returns kNoOwner if all ranks execute the command,
/// because its slots have no owner or because it is a collective.
int64_t ownerOf(CommandOpInterface command);
/// Returns all owners of slots of a program. If no slot has an owner, returns a
/// list that contains only kNoOwner.
llvm::SmallVector<int64_t> ownersOf(ProgramOp program);
/// Returns true if the rank with the index `owner` has a slot.
inline bool exists(SlotOp slot, int64_t owner) {
  int64_t only = ownerOf(slot);
  return only == kNoOwner || only == owner;
}

/// Convert between kinds of transfers and collectives. collectiveOf() returns
/// std::nullopt for a transfer that is not a collective.
std::optional<Collective> collectiveOf(TransferKind kind);
TransferKind transferKindOf(Collective collective);

/// Returns the name that traces and messages use for a command.
std::string nameOf(mlir::Operation *command);

/// Returns the memory that a command uses: host memory if the command accesses
/// a slot in host memory, even if the command also reads scalars in device
/// memory; otherwise device memory.
MemorySpace memoryOf(CommandOpInterface command);

/// Returns, for every command, the bytes of all slots in `memory` that are live
/// at the command, not counting slots of states. If ranks have different slots,
/// returns the maximum over the ranks. The size of a slot is rounded up to a
/// multiple of 64 bytes, as in the arena. If `oneInFlight` is set, counts one
/// instance of each slot, as if no other micro-batch were in flight.
std::vector<int64_t> liveBytes(ProgramOp program,
                               MemorySpace memory = MemorySpace::Device,
                               bool oneInFlight = false);

/// Verifies that no bytes are reused before their last access: slots that share
/// bytes have disjoint lifetimes, commands access only live slots, and commands
/// of different queues that access the same bytes, at least one of them
/// writing, are ordered by tokens for every micro-batch. Reports the first
/// violation as an error that names both commands or both slots.
llvm::LogicalResult verifySchedule(ProgramOp program);

/// Verifies only that tokens order commands of different queues as
/// verifySchedule() requires, on the rank with the index `owner`.
llvm::LogicalResult verifyQueueOrder(ProgramOp program,
                                     llvm::ArrayRef<mlir::Operation *> commands,
                                     int64_t owner);

} // namespace kiln::rt

#endif // KILN_DIALECT_KILNRT_IR_KILNRT_H
