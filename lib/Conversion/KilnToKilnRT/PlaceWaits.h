//===- PlaceWaits.h - Orders the queues of a program ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_CONVERSION_KILNTOKILNRT_PLACEWAITS_H
#define KILN_LIB_CONVERSION_KILNTOKILNRT_PLACEWAITS_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

namespace kiln {

/// The queues of a module, declared when they are first asked for. A target
/// whose commands overlap has one queue for its own memory and one for commands
/// in host memory; another target executes all commands but transfers on one
/// queue.
class QueueTable {
public:
  QueueTable(mlir::ModuleOp module, mlir::SymbolTable &symbols, bool overlap)
      : module(module), symbols(symbols), overlap(overlap) {}
  /// The queue of a command that works on `memory`.
  mlir::FlatSymbolRefAttr executing(MemorySpace memory);
  /// The queue of copies to `memory` from the other one.
  mlir::FlatSymbolRefAttr copyingTo(MemorySpace memory);
  /// All queues declared so far that execute other commands than transfers.
  mlir::ArrayAttr getExecuting();
  /// The queue of the commands on `memory`, where each memory has its own; null
  /// if it is not declared.
  mlir::FlatSymbolRefAttr lookup(MemorySpace memory) {
    return names[memory == MemorySpace::Host ? Host : Compute];
  }

private:
  enum Kind { Compute, Host, CopyOut, CopyIn };
  mlir::FlatSymbolRefAttr get(Kind kind);

  mlir::ModuleOp module;
  mlir::SymbolTable &symbols;
  bool overlap;
  mlir::FlatSymbolRefAttr names[4];
};

/// Lets the commands of each queue wait for those of the others:
///   - a transfer begins when all commands before it that are no transfers are
///     over;
///   - a wait for a transfer holds up every queue that executes other commands;
///   - a command of the host that reads something in device memory (a scalar)
///     waits for the device's commands if one of them writes it, and a later
///     command of the device that writes it waits for the host's.
/// rt::verifyQueueOrder proves that this suffices for a plan.
void placeWaits(rt::ProgramOp program, QueueTable &queues);

} // namespace kiln

#endif // KILN_LIB_CONVERSION_KILNTOKILNRT_PLACEWAITS_H
