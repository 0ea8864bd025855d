//===- PlaceWaits.h - Waits between the queues of a program -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_CONVERSION_KILNTOKILNRT_PLACEWAITS_H
#define KILN_LIB_CONVERSION_KILNTOKILNRT_PLACEWAITS_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/ADT/StringMap.h"

namespace kiln {

/// The queues of a module. Each queue is declared on first use. If `overlap` is
/// true, one queue executes the commands on device memory and a second queue
/// executes the commands on host memory. Otherwise one queue executes both.
/// Transfers have queues of their own.
class QueueTable {
public:
  QueueTable(mlir::ModuleOp module, mlir::SymbolTable &symbols, bool overlap)
      : module(module), symbols(symbols), overlap(overlap) {}
  /// Returns the queue of commands that access `memory`.
  mlir::FlatSymbolRefAttr executing(MemorySpace memory);
  /// Returns the queue of the transfers whose destination is in `memory`.
  mlir::FlatSymbolRefAttr copyingTo(MemorySpace memory);
  /// Returns the queue of the collectives over an axis of the mesh.
  mlir::FlatSymbolRefAttr reducing(llvm::StringRef axis);
  /// Returns all queues declared so far, except those of transfers.
  mlir::ArrayAttr getExecuting();
  /// Returns the queue that was declared for commands on `memory`, or null if
  /// there is none.
  mlir::FlatSymbolRefAttr lookup(MemorySpace memory) {
    return names[memory == MemorySpace::Host ? Host : Compute];
  }

private:
  enum Kind { Compute, Host, CopyOut, CopyIn };
  mlir::FlatSymbolRefAttr get(Kind kind);
  mlir::FlatSymbolRefAttr declare(llvm::StringRef name, rt::Engine engine);

  mlir::ModuleOp module;
  mlir::SymbolTable &symbols;
  bool overlap;
  mlir::FlatSymbolRefAttr names[4];
  llvm::StringMap<mlir::FlatSymbolRefAttr> ofAxis;
};

/// Inserts the waits between the queues of a program:
///   - A transfer starts when all earlier commands on device memory are
///     complete. If a command on host memory that conflicts with the transfer
///     could still be running, the transfer also waits for all earlier commands
///     on host memory.
///   - A wait for a transfer blocks the queue of commands on device memory. If
///     a command on host memory conflicts with the transfer, the wait also
///     blocks the queue of commands on host memory.
///   - A command of the host that reads a scalar in device memory waits for the
///     device if the device writes the scalar. A later command of the device
///     that writes the scalar waits for the host.
/// rt::verifyQueueOrder proves that these waits are sufficient.
void placeWaits(rt::ProgramOp program, QueueTable &queues);

} // namespace kiln

#endif // KILN_LIB_CONVERSION_KILNTOKILNRT_PLACEWAITS_H
