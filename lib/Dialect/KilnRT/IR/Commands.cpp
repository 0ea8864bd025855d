//===- Commands.cpp - Commands of a scheduled program -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace kiln;
using namespace kiln::rt;

static void collect(Block &block, SmallVectorImpl<Operation *> &commands) {
  for (Operation &op : block) {
    if (isa<CommandOpInterface>(op))
      commands.push_back(&op);
    if (auto loop = dyn_cast<LoopOp>(op)) {
      commands.push_back(&op);
      collect(loop.getBody().front(), commands);
      commands.push_back(&op);
    }
  }
}

SmallVector<Operation *> rt::commandsOf(rt::ProgramOp program) {
  SmallVector<Operation *> commands;
  collect(program.getBody().front(), commands);
  return commands;
}

std::string rt::nameOf(Operation *command) {
  StringRef name = getLocationName(command->getLoc());
  if (!name.empty())
    return name.str();
  if (auto begin = dyn_cast<BeginOp>(command))
    return (stringifyTransferKind(begin.getKind()) + "_start").str();
  return command->getName().stripDialect().str();
}

MemorySpace rt::memoryOf(CommandOpInterface command) {
  bool touchesHost =
      llvm::any_of(command.getAccesses(), [](const MemoryAccess &access) {
        return slotOf(access.slot).getMemory() == MemorySpace::Host;
      });
  return touchesHost ? MemorySpace::Host : MemorySpace::Device;
}

std::vector<int64_t> rt::liveBytes(rt::ProgramOp program, MemorySpace memory) {
  size_t commands = commandsOf(program).size();
  std::vector<int64_t> live(commands + 1, 0);
  for (SlotOp slot : program.getBody().front().getOps<SlotOp>()) {
    if (slot.getState() || slot.getMemory() != memory)
      continue;
    auto bytes = static_cast<int64_t>(
        llvm::alignTo(slot.getBytes(), abi::slotAlignment));
    // A slot that no command accesses counts as live at the first command.
    live[std::min<size_t>(slot.getFirst(), commands)] += bytes;
    live[std::min<size_t>(slot.getLast() + 1, commands)] -= bytes;
  }
  std::partial_sum(live.begin(), live.end(), live.begin());
  live.pop_back();
  return live;
}
