//===- CommandChecks.h - What verifiers of commands share -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILNRT_IR_COMMANDCHECKS_H
#define KILN_LIB_DIALECT_KILNRT_IR_COMMANDCHECKS_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

namespace kiln::rt {

/// Verifies that all queues that a command names exist, and that the engine of
/// the command's own queue executes this kind of command.
llvm::LogicalResult verifyQueues(mlir::Operation *command, bool isTransfer,
                                 mlir::SymbolTableCollection &tables);

/// Appends accesses of memory operands to `accesses`.
void addAccesses(llvm::SmallVectorImpl<MemoryAccess> &accesses,
                 mlir::ValueRange places, Access access);

} // namespace kiln::rt

#endif // KILN_LIB_DIALECT_KILNRT_IR_COMMANDCHECKS_H
