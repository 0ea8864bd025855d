//===- VerifySchedule.cpp - Happens-before for every reuse ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Commands happen in order; only copies overlap with the commands between their
// beginning and their wait. As slots that share bytes live one after the other
// and a copy's slots live from its beginning to its wait, a race is possible
// only on those two slots themselves.
//
//===----------------------------------------------------------------------===//

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::rt;

static LogicalResult checkDisjoint(rt::ProgramOp program) {
  SmallVector<SlotOp> slots;
  for (SlotOp slot : program.getBody().front().getOps<SlotOp>())
    if (slot.getBytes() > 0)
      slots.push_back(slot);
  llvm::sort(slots, [](SlotOp a, SlotOp b) {
    return std::tuple(a.getHost(), a.getOffset(), a.getFirst()) <
           std::tuple(b.getHost(), b.getOffset(), b.getFirst());
  });
  for (size_t i = 0; i < slots.size(); ++i) {
    SlotOp a = slots[i];
    for (size_t j = i + 1;
         j < slots.size() && slots[j].getHost() == a.getHost() &&
         slots[j].getOffset() < a.getOffset() + a.getBytes();
         ++j) {
      SlotOp b = slots[j];
      if (a.getLast() < b.getFirst() || b.getLast() < a.getFirst())
        continue;
      InFlightDiagnostic diagnostic = b.emitOpError("'")
                                      << b.getName() << "' shares bytes with '"
                                      << a.getName()
                                      << "', which lives at the same time";
      diagnostic.attachNote(a.getLoc()) << "the other slot is here";
      return diagnostic;
    }
  }
  return success();
}

/// Slots that a command writes.
static SmallVector<Value> writtenBy(Operation *command, SymbolTable &symbols) {
  if (auto launch = dyn_cast<LaunchOp>(command)) {
    auto kernel = symbols.lookup<KernelOp>(launch.getKernel());
    SmallVector<Value> written(launch.getSlots().drop_front(
        kernel.getBody().front().getNumArguments()));
    if (launch.getScratch())
      written.push_back(launch.getScratch());
    return written;
  }
  if (auto gemm = dyn_cast<GemmOp>(command))
    return {gemm.getC()};
  if (auto fill = dyn_cast<FillOp>(command))
    return {fill.getSlot()};
  if (auto copy = dyn_cast<CopyOp>(command))
    return {copy.getTo()};
  if (auto copy = dyn_cast<CopyStartOp>(command))
    return {copy.getTo()};
  return {};
}

static InFlightDiagnostic reportRace(Operation *command, StringRef what,
                                     CopyStartOp copy) {
  InFlightDiagnostic diagnostic = command->emitOpError()
                                  << what << " a copy that is under way";
  diagnostic.attachNote(copy.getLoc()) << "the copy begins here";
  diagnostic.attachNote(copy.getWait().getLoc()) << "and is waited for here";
  return diagnostic;
}

static LogicalResult checkCopies(rt::ProgramOp program) {
  SymbolTable symbols(program->getParentOfType<ModuleOp>());
  SmallVector<Operation *> commands = commandsOf(program);
  SmallVector<CopyStartOp> underWay;
  for (auto [index, command] : llvm::enumerate(commands)) {
    if (isa<LoopOp>(command)) {
      if (!underWay.empty())
        return reportRace(command, "begins or ends during", underWay.front());
      continue;
    }
    if (auto wait = dyn_cast<WaitOp>(command))
      llvm::erase(underWay, wait.getStart());
    SmallVector<Value> written = writtenBy(command, symbols);
    for (CopyStartOp copy : underWay) {
      if (llvm::is_contained(written, copy.getFrom()))
        return reportRace(command, "writes the source of", copy);
      if (llvm::is_contained(command->getOperands(), copy.getTo()))
        return reportRace(command, "touches the destination of", copy);
      for (Value side : {copy.getFrom(), copy.getTo()})
        if (auto slot = side.getDefiningOp<SlotOp>();
            slot.getFirst() > index || slot.getLast() < index)
          return reportRace(command, "runs outside of the life of a slot of",
                            copy);
    }
    if (auto copy = dyn_cast<CopyStartOp>(command))
      underWay.push_back(copy);
  }
  return success();
}

LogicalResult rt::verifySchedule(rt::ProgramOp program) {
  return failure(failed(checkDisjoint(program)) ||
                 failed(checkCopies(program)));
}
