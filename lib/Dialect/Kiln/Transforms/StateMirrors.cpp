//===- StateMirrors.cpp - Mirrors of states on the host
//--------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StateMirrors.h"

using namespace mlir;
using namespace kiln;

/// Returns the last op of the train program that reads the value that a state
/// has when the program begins.
static Operation *lastReader(ProgramOp train, StringAttr state) {
  Operation *last = nullptr;
  SmallVector<Value> values;
  for (ReadOp read : train.getBlock().getOps<ReadOp>())
    if (read.getStateAttr().getAttr() == state)
      values.push_back(read.getResult());
  while (!values.empty())
    for (Operation *user : values.pop_back_val().getUsers()) {
      if (familyOf(user) == Family::View)
        values.push_back(user->getResult(0));
      if (isa<ReturnOp>(user))
        continue; // A return yields the value that a state had at the start of
                  // the program, even if a write precedes the return.
      Operation *outer = train.getBlock().findAncestorOpInBlock(*user);
      if (!last || last->isBeforeInBlock(outer))
        last = outer;
    }
  return last;
}

/// Returns the write of `state` by an update.
static WriteOp writeOf(const StateUpdate &update, StateOp state) {
  for (Operation *user : update.op->getUsers())
    if (auto write = dyn_cast<WriteOp>(user);
        write && write.getState() == state.getSymName())
      return write;
  llvm_unreachable("an update writes its working copy");
}

/// Builds the ops that copy `value` from the host to the device and write it to
/// `mirror`. The mirror is a parameter's copy on the device, and `value` is the
/// new value of the mirror.
static void writeMirror(ProgramOp train, const StateUpdate &update,
                        StateOp mirror, Value value, bool atEnd) {
  OpBuilder builder(train.getContext());
  StringAttr name = mirror.getSymNameAttr();
  Location loc = mirror.getLoc();
  Operation *last = lastReader(train, name);
  if (atEnd)
    builder.setInsertionPoint(train.getReturn());
  else
    builder.setInsertionPointAfter(
        last && update.op->isBeforeInBlock(last) ? last : update.op);
  auto copy = CopyInOp::create(builder, loc, mirror.getType(), value);
  builder.setInsertionPoint(train.getReturn());
  Value there = CopyWaitOp::create(builder, loc, mirror.getType(),
                                   copy.getResult(), value);
  WriteOp::create(builder, loc, name, there);
}

void kiln::addMirrors(ProgramOp train, ArrayRef<StateUpdate> updates,
                      const llvm::DenseSet<StringAttr> &mirrored, bool atEnd) {
  auto module = train->getParentOfType<ModuleOp>();
  OpBuilder builder(module.getContext());
  SymbolTable symbols(module);
  for (const StateUpdate &update : updates) {
    StateOp parameter = update.parameter, copy = update.copy;
    if (!mirrored.contains(parameter.getSymNameAttr()))
      continue;
    if (copy) {
      WriteOp write = writeOf(update, copy);
      Value value = write.getValue();
      write.erase();
      writeMirror(train, update, copy, value, atEnd);
      continue;
    }
    Location loc = parameter.getLoc();
    builder.setInsertionPointAfter(parameter);
    auto mirror = StateOp::create(
        builder, loc, builder.getStringAttr(parameter.getSymName() + ".device"),
        TypeAttr::get(inMemory(parameter.getType(), MemorySpace::Device)),
        RoleAttr::get(builder.getContext(), Role::Mirror), parameter.getInit(),
        FlatSymbolRefAttr::get(parameter.getSymNameAttr()),
        /*slot=*/StringAttr(), /*source=*/StringAttr(),
        /*aliases=*/ArrayAttr(), /*copies=*/ArrayAttr(),
        /*frozen=*/UnitAttr(), /*adapter=*/AdapterAttr(),
        /*quantized=*/QuantizedAttr(),
        /*shard=*/parameter.getShardAttr());
    // If the model already has a state with the symbol of the mirror (the
    // parameter's copy on the device), insert() renames the mirror.
    StringAttr name = symbols.insert(mirror);
    for (ProgramOp program : module.getOps<ProgramOp>())
      for (ReadOp read :
           llvm::make_early_inc_range(program.getBlock().getOps<ReadOp>())) {
        if (read.getStateAttr().getAttr() != parameter.getSymNameAttr())
          continue;
        builder.setInsertionPointAfter(read);
        auto onDevice =
            ReadOp::create(builder, read.getLoc(), read.getType(), name);
        read.getResult().replaceUsesWithIf(
            onDevice.getResult(),
            [&](OpOperand &use) { return use.getOwner() != update.op; });
        if (onDevice.getResult().use_empty())
          onDevice.erase();
        if (read.getResult().use_empty())
          read.erase();
      }
    WriteOp write = update.write;
    writeMirror(train, update, mirror, write.getValue(), atEnd);
  }
}
