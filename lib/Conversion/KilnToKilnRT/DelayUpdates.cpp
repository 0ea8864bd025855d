//===- DelayUpdates.cpp - Updates after the readers of states ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlanBuilder.h"

#include <limits>

using namespace mlir;
using namespace kiln;

/// Collects all ops that read a value, directly or through views.
static void collectReaders(Value value, SmallVectorImpl<Operation *> &readers) {
  for (Operation *user : value.getUsers()) {
    if (familyOf(user) == Family::View)
      collectReaders(user->getResult(0), readers);
    else
      readers.push_back(user);
  }
}

/// Moves each update, with the writes of its results, after all other readers
/// of the old value of the state. The update can then overwrite the state.
void PlanBuilder::delayUpdates(Block &block) {
  SmallVector<DispatchOp> updates;
  for (auto dispatch : block.getOps<DispatchOp>())
    if (llvm::any_of(dispatch->getUsers(),
                     [](Operation *user) { return isa<WriteOp>(user); }))
      updates.push_back(dispatch);
  // Moving an op invalidates the order of the ops of a block, and numbering all
  // ops again takes linear time. Therefore, each op has a position of two
  // numbers. An update that moves after an unmoved op gets the first number of
  // this op. The second number orders the updates that moved after the same op:
  // the update that moved last comes first.
  using Position = std::pair<int64_t, int64_t>;
  static constexpr int64_t kUnmoved = std::numeric_limits<int64_t>::min();
  llvm::DenseMap<Operation *, Position> positions;
  auto number = [&] {
    for (auto [i, op] : llvm::enumerate(block))
      positions[&op] = {static_cast<int64_t>(i), kUnmoved};
  };
  number();
  int64_t moves = 0;
  for (DispatchOp update : updates) {
    SmallVector<Operation *> readers;
    auto collectReadersOf = [&](StringAttr state) {
      for (ReadOp read : readsOf.lookup(state))
        collectReaders(read.getResult(), readers);
    };
    for (Value input : update.getInputs())
      if (auto read = input.getDefiningOp<ReadOp>())
        collectReadersOf(read.getStateAttr().getAttr());
    // An update also writes the mirror (a copy of the parameter) without
    // reading it, so collect the readers of the mirror, too.
    for (Operation *user : update->getUsers())
      if (auto write = dyn_cast<WriteOp>(user);
          write && mirrors.contains(write.getStateAttr().getAttr()))
        collectReadersOf(write.getStateAttr().getAttr());
    Operation *last = update;
    for (Operation *reader : readers)
      if (Operation *outer = block.findAncestorOpInBlock(*reader);
          outer && positions.lookup(last) < positions.lookup(outer))
        last = outer;
    // If the last reader is the terminator, the update cannot be moved after
    // it. Instead, the result is copied into the state at the end.
    if (last == update || last->hasTrait<OpTrait::IsTerminator>())
      continue;
    // Move the update only if all its results are read only at the end of the
    // program. Otherwise the new value is copied into the state at the end.
    // Returning a result counts as reading at the end; a fused update may also
    // yield a gradient that the program returns.
    bool readAtEnd = llvm::all_of(update->getUsers(), [](Operation *user) {
      return isa<WriteOp, ReturnOp>(user);
    });
    if (!readAtEnd)
      continue;
    SmallVector<Operation *> writes;
    for (Operation *user : update->getUsers())
      if (isa<WriteOp>(user))
        writes.push_back(user);
    update->moveAfter(last);
    for (Operation *write : writes)
      write->moveAfter(update);
    if (positions.lookup(last).second == kUnmoved) {
      Position position = {positions.lookup(last).first, --moves};
      positions[update] = position;
      for (Operation *write : writes)
        positions[write] = position;
    } else {
      number();
    }
  }
}
