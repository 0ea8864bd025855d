//===- VerifySchedule.cpp - Happens-before for every reuse ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Commands happen in order; only copies overlap with the commands between their
// beginning and their wait. As slots that share bytes live one after the other,
// commands touch slots that live, and both ends of a copy count as touching its
// two slots, a race is possible only on those two slots themselves.
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

/// A slot that some of a loop's iterations touch and something outside of the
/// loop too lives through all of it: the next iteration comes back to it.
static LogicalResult checkLoops(rt::ProgramOp program,
                                ArrayRef<Operation *> commands) {
  std::optional<size_t> begin;
  for (auto [end, command] : llvm::enumerate(commands)) {
    if (!isa<LoopOp>(command))
      continue;
    if (!begin) {
      begin = end;
      continue;
    }
    for (SlotOp slot : program.getBody().front().getOps<SlotOp>()) {
      size_t first = slot.getFirst(), last = slot.getLast();
      bool inside = first < end && last > *begin;
      bool outside = first < *begin || last > end;
      if (inside && outside && (first > *begin || last < end))
        return slot.emitOpError("'")
               << slot.getName() << "' lives from command " << first << " to "
               << last << ", through a part of the loop from " << *begin
               << " to " << end;
    }
    begin.reset();
  }
  return success();
}

static LogicalResult checkAlive(Operation *op, Value place, size_t index) {
  auto slot = place.getDefiningOp<SlotOp>();
  if (!slot || (slot.getFirst() <= index && index <= slot.getLast()))
    return success();
  InFlightDiagnostic diagnostic = op->emitOpError("touches slot '")
                                  << slot.getName() << "' at command " << index
                                  << ", which lives from command "
                                  << slot.getFirst() << " to "
                                  << slot.getLast();
  diagnostic.attachNote(slot.getLoc()) << "the slot is here";
  return diagnostic;
}

/// Commands touch slots that live; so do the caller before and after them.
static LogicalResult checkLives(rt::ProgramOp program,
                                ArrayRef<Operation *> commands) {
  for (auto [index, command] : llvm::enumerate(commands)) {
    SmallVector<Value> touched;
    if (auto wait = dyn_cast<WaitOp>(command)) {
      if (CopyStartOp copy = wait.getStart())
        touched = {copy.getFrom(), copy.getTo()};
    } else {
      touched = command->getOperands();
    }
    for (Value slot : touched)
      if (failed(checkAlive(command, slot, index)))
        return failure();
  }
  Block &block = program.getBody().front();
  for (InputOp input : block.getOps<InputOp>())
    if (!input.getInputFact())
      return input.emitOpError("'")
             << input.getName()
             << "' has no role: nothing fills it in; declare it with fact "
                "#kiln.input<data>";
  for (InputOp input : block.getOps<InputOp>())
    if (!commands.empty() && failed(checkAlive(input, input.getSlot(), 0)))
      return failure();
  for (OutputOp output : block.getOps<OutputOp>())
    if (!commands.empty() &&
        failed(checkAlive(output, output.getSlot(), commands.size() - 1)))
      return failure();
  return checkLoops(program, commands);
}

SmallVector<Value> kiln::rt::writtenSlots(Operation *command,
                                          SymbolTable &symbols) {
  if (auto launch = dyn_cast<LaunchOp>(command)) {
    auto kernel = symbols.lookup<KernelOp>(launch.getKernel());
    SmallVector<Value> written(launch.getSlots().drop_front(
        kernel.getBody().front().getNumArguments()));
    if (launch.getScratch())
      written.push_back(launch.getScratch());
    return written;
  }
  if (auto gemm = dyn_cast<GemmOp>(command)) {
    SmallVector<Value> written{gemm.getC()};
    if (gemm.getScratch())
      written.push_back(gemm.getScratch());
    if (writesBias(gemm.getLibraryEpilogue()))
      written.push_back(gemm.getBias());
    if (writesAux(gemm.getLibraryEpilogue()))
      written.push_back(gemm.getAux());
    if (gemm.getEpilogue()) {
      // Its operands but the product, then its results.
      auto kernel = symbols.lookup<KernelOp>(*gemm.getEpilogue());
      llvm::append_range(written,
                         gemm.getEpilogueSlots().drop_front(
                             kernel.getBody().front().getNumArguments() - 1));
    }
    return written;
  }
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

static LogicalResult checkCopies(rt::ProgramOp program,
                                 ArrayRef<Operation *> commands) {
  SymbolTable symbols(program->getParentOfType<ModuleOp>());
  SmallVector<CopyStartOp> underWay;
  for (Operation *command : commands) {
    if (isa<LoopOp>(command)) {
      if (!underWay.empty())
        return reportRace(command, "begins or ends during", underWay.front());
      continue;
    }
    if (auto wait = dyn_cast<WaitOp>(command))
      llvm::erase(underWay, wait.getStart());
    SmallVector<Value> written = writtenSlots(command, symbols);
    for (CopyStartOp copy : underWay) {
      if (llvm::is_contained(written, copy.getFrom()))
        return reportRace(command, "writes the source of", copy);
      if (llvm::is_contained(command->getOperands(), copy.getTo()))
        return reportRace(command, "touches the destination of", copy);
    }
    if (auto copy = dyn_cast<CopyStartOp>(command))
      underWay.push_back(copy);
  }
  return success();
}

LogicalResult rt::verifySchedule(rt::ProgramOp program) {
  SmallVector<Operation *> commands = commandsOf(program);
  return failure(failed(checkDisjoint(program)) ||
                 failed(checkLives(program, commands)) ||
                 failed(checkCopies(program, commands)));
}
