//===- KilnRT.h - The scheduled level ---------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILNRT_IR_KILNRT_H
#define KILN_DIALECT_KILNRT_IR_KILNRT_H

#include "kiln/Abi/GemmEpilogue.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include "mlir/IR/OpImplementation.h"

#include "kiln/Dialect/KilnRT/IR/KilnRTDialect.h.inc"
#include "kiln/Dialect/KilnRT/IR/KilnRTEnums.h.inc"

namespace kiln::rt {

class BeginOp;
class KernelOp;
class SlotOp;
class ViewOp;

/// How a command touches a slot.
struct MemoryAccess {
  mlir::Value slot; ///< The result of a SlotOp.
  mlir::Value view; ///< The result of a ViewOp; null for memory to work in.
  Access access;

  bool reads() const { return access != Access::Write; }
  bool writes() const { return access != Access::Read; }
};

/// Verifies what all commands have in common: their places are views of slots.
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

/// The slot and the view that define a command's operands.
inline SlotOp slotOf(mlir::Value slot) { return slot.getDefiningOp<SlotOp>(); }
inline ViewOp viewOf(mlir::Value place) {
  return place.getDefiningOp<ViewOp>();
}

/// The type of a view of a tensor in `memory` whose rows are `rowPitch`
/// elements apart.
mlir::MemRefType viewType(mlir::RankedTensorType tensor, int64_t rowPitch,
                          MemorySpace memory);

/// The commands of a program in the order in which the lifetimes of slots count
/// them: a loop stands at both of its ends.
llvm::SmallVector<mlir::Operation *> commandsOf(ProgramOp program);

/// The name of a command in traces and messages.
std::string nameOf(mlir::Operation *command);

/// True if the command reads or writes a slot of the host's memory.
bool touchesHostMemory(CommandOpInterface command);

/// Bytes alive at every command, without states: slots of a memory as they lie
/// in the arena, that is, in whole lines of 64 bytes.
std::vector<int64_t> liveBytes(ProgramOp program,
                               MemorySpace memory = MemorySpace::Device);

/// Proves that no bytes are reused too early: slots that share bytes live one
/// after the other, commands touch slots that live, and whatever touches bytes
/// that another queue's command writes is ordered with it by tokens, in every
/// iteration. The first violation is an error that names both sides.
llvm::LogicalResult verifySchedule(ProgramOp program);

/// Proves the order of queues alone, see verifySchedule.
llvm::LogicalResult
verifyQueueOrder(ProgramOp program, llvm::ArrayRef<mlir::Operation *> commands);

} // namespace kiln::rt

#endif // KILN_DIALECT_KILNRT_IR_KILNRT_H
