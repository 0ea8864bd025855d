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

namespace kiln::rt {
class CopyStartOp;
class WaitOp;
} // namespace kiln::rt

#include "kiln/Dialect/KilnRT/IR/KilnRTDialect.h.inc"
#include "kiln/Dialect/KilnRT/IR/KilnRTEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTAttrs.h.inc"

#define GET_TYPEDEF_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTTypes.h.inc"

#define GET_OP_CLASSES
#include "kiln/Dialect/KilnRT/IR/KilnRTOps.h.inc"

namespace kiln::rt {

/// The commands of a program in the order in which the lifetimes of slots count
/// them: a loop stands at both of its ends.
llvm::SmallVector<mlir::Operation *> commandsOf(ProgramOp program);

/// What a command is called in traces and messages.
std::string nameOf(mlir::Operation *command);

/// Whether a launch is of a kernel that works on the host's memory: it reads or
/// writes a slot there.
bool isOnHost(LaunchOp launch);

/// The slots that a command writes, its scratch included. `symbols` is the
/// table of the module.
llvm::SmallVector<mlir::Value> writtenSlots(mlir::Operation *command,
                                            mlir::SymbolTable &symbols);

/// Bytes alive at every command, without states: slots of the device (or of the
/// host) as they lie in the arena, that is, in whole lines of 64 bytes.
std::vector<int64_t> liveBytes(ProgramOp program, bool host = false);

/// Proves that no bytes are reused too early: slots that share bytes live one
/// after the other; while a copy is under way both of its slots live, nothing
/// writes its source, and nothing touches its destination. The first violation
/// is an error that names both sides.
llvm::LogicalResult verifySchedule(ProgramOp program);

} // namespace kiln::rt

#endif // KILN_DIALECT_KILNRT_IR_KILNRT_H
