//===- CopyAverages.cpp - Averages of states on the host ------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CopyAverages.h"

#include "kiln/Dialect/Kiln/Transforms/Offload.h"

using namespace mlir;
using namespace kiln;

/// Also writes each average of a parameter to the mirror of the parameter, its
/// copy on the device.
static void writeMirrors(ModuleOp module, ArrayRef<WriteOp> writes) {
  llvm::DenseSet<StringAttr> written;
  for (WriteOp write : writes)
    written.insert(write.getStateAttr().getAttr());
  for (WriteOp write : writes)
    for (StateOp mirror : module.getOps<StateOp>()) {
      if (mirror.getRole() != Role::Mirror ||
          mirror.getOfAttr() != write.getStateAttr() ||
          written.contains(mirror.getSymNameAttr()))
        continue;
      OpBuilder builder(write);
      builder.setInsertionPointAfter(write);
      WriteOp::create(builder, mirror.getLoc(), mirror.getSymName(),
                      write.getValue());
    }
}

/// Copies to the host the average that `write` stores. Delays the wait for the
/// copy, and the write, until the next op that is not a copy, cast or write.
/// Such an op is, for example, a read of a state that is averaged later.
static void copyOut(WriteOp write) {
  OpBuilder builder(write);
  Value value = write.getValue();
  Type type = inMemory(value.getType(), MemorySpace::Host);
  auto copy = CopyOutOp::create(builder, value.getLoc(), type, value);
  Operation *next = write;
  while (isa<WriteOp, CopyOutOp, CopyWaitOp, CastOp>(next))
    next = next->getNextNode();
  builder.setInsertionPoint(next);
  Value there = CopyWaitOp::create(builder, value.getLoc(), type,
                                   copy.getResult(), value);
  write.getValueMutable().assign(there);
  write->moveBefore(next);
}

void kiln::copyAverages(ModuleOp module,
                        const llvm::DenseSet<StringAttr> &statesOnHost) {
  for (ProgramOp program : module.getOps<ProgramOp>()) {
    if (program.getKind() != ProgramKind::Sync)
      continue;
    SmallVector<WriteOp> writes(program.getBlock().getOps<WriteOp>());
    writeMirrors(module, writes);
    for (WriteOp write : writes)
      if (statesOnHost.contains(write.getStateAttr().getAttr()))
        copyOut(write);
    Builder builder(module.getContext());
    for (ReadOp read : program.getBlock().getOps<ReadOp>())
      if (statesOnHost.contains(read.getStateAttr().getAttr()))
        read->setAttr(kPrefetchAttr, builder.getDenseI64ArrayAttr({0}));
  }
}
