//===- Commands.cpp - Commands of a scheduled program -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Abi/ArenaLayout.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

#include <numeric>

using namespace mlir;
using namespace kiln;
using namespace kiln::abi;
using namespace kiln::rt;

static void collect(Block &block, SmallVectorImpl<Operation *> &commands) {
  for (Operation &op : block) {
    if (isa<CommandOpInterface>(op))
      commands.push_back(&op);
    if (auto microbatches = dyn_cast<rt::MicrobatchesOp>(op)) {
      collect(microbatches.getForward().front(), commands);
      collect(microbatches.getBackward().front(), commands);
    }
  }
}

SmallVector<Operation *> rt::commandsOf(rt::ProgramOp program) {
  SmallVector<Operation *> commands;
  collect(program.getBody().front(), commands);
  return commands;
}

std::optional<MicrobatchCommands> rt::microbatchesOf(rt::ProgramOp program) {
  Block &block = program.getBody().front();
  auto ops = block.getOps<rt::MicrobatchesOp>();
  if (ops.empty())
    return std::nullopt;
  auto count = [](auto &&range) {
    return llvm::count_if(
        range, [](Operation &op) { return isa<CommandOpInterface>(op); });
  };
  MicrobatchCommands commands;
  commands.op = *ops.begin();
  commands.forward =
      count(llvm::make_range(block.begin(), Block::iterator(commands.op)));
  commands.backward =
      commands.forward + count(commands.op.getForward().front());
  commands.end = commands.backward + count(commands.op.getBackward().front());
  return commands;
}

/// Returns true for a command that is not in micro-batches or is executed only
/// in the last execution of its forward or backward segment. Returns false for
/// an input or output.
static bool isLastOrOutside(Operation *user) {
  auto command = dyn_cast<CommandOpInterface>(user);
  return command && (command.getWhen() == When::Last ||
                     !isa<rt::MicrobatchesOp>(user->getParentOp()));
}

std::vector<SegmentExecution> rt::executionsOf(rt::ProgramOp program,
                                               bool shortened) {
  auto size = static_cast<int64_t>(commandsOf(program).size());
  std::optional<MicrobatchCommands> commands = microbatchesOf(program);
  if (!commands)
    return {{0, size, {}}};
  SegmentOrder order = commands->op.getSegmentOrder();
  auto count = static_cast<int64_t>(commands->op.getCount());
  if (shortened)
    std::tie(order, count) = order.shortened(count);
  std::vector<SegmentExecution> executions;
  executions.push_back({0, commands->forward, {}});
  for (const SegmentRun &run : order.runs(count)) {
    bool isForward = run.segment == Segment::Forward;
    executions.push_back({isForward ? commands->forward : commands->backward,
                          isForward ? commands->backward : commands->end, run});
  }
  executions.push_back({commands->end, size, {}});
  return executions;
}

bool rt::isExecuted(Operation *command, const SegmentExecution &execution) {
  switch (cast<CommandOpInterface>(command).getWhen()) {
  case When::Always:
    return true;
  case When::First:
    return execution.run && execution.run->isFirst;
  case When::Last:
    return execution.run && execution.run->isLast;
  }
  llvm_unreachable("unknown executions");
}

bool rt::beginsInLastExecution(
    SlotOp slot, const std::optional<MicrobatchCommands> &commands) {
  if (!commands || slot.getState() || slot.getRing() ||
      static_cast<int64_t>(slot.getFirst()) < commands->backward ||
      static_cast<int64_t>(slot.getFirst()) >= commands->end ||
      static_cast<int64_t>(slot.getLast()) < commands->end)
    return false;
  auto isLast = [&](Operation *user) {
    return isa<ViewOp>(user) ? llvm::all_of(user->getUsers(),
                                            [&](Operation *command) {
                                              return isLastOrOutside(command);
                                            })
                             : isLastOrOutside(user);
  };
  return llvm::all_of(slot->getUsers(), isLast);
}

std::optional<Collective> rt::collectiveOf(TransferKind kind) {
  switch (kind) {
  case TransferKind::AllReduce:
    return Collective::AllReduce;
  case TransferKind::ReduceScatter:
    return Collective::ReduceScatter;
  case TransferKind::AllGather:
    return Collective::AllGather;
  case TransferKind::Copy:
  case TransferKind::Send:
  case TransferKind::Receive:
    return std::nullopt;
  }
  llvm_unreachable("unknown kind of transfer");
}

TransferKind rt::transferKindOf(Collective collective) {
  switch (collective) {
  case Collective::AllReduce:
    return TransferKind::AllReduce;
  case Collective::ReduceScatter:
    return TransferKind::ReduceScatter;
  case Collective::AllGather:
    return TransferKind::AllGather;
  }
  llvm_unreachable("unknown collective");
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

std::pair<int64_t, int64_t>
rt::occupancyOf(rt::SlotOp slot,
                const std::optional<MicrobatchCommands> &microbatches) {
  auto first = static_cast<int64_t>(slot.getFirst()),
       last = static_cast<int64_t>(slot.getLast());
  if (slot.getRing() && microbatches)
    return {microbatches->forward, microbatches->end - 1};
  return {first, last};
}

int64_t rt::ownerOf(SlotOp slot) {
  std::optional<uint64_t> owner = slot.getOwner();
  return owner ? static_cast<int64_t>(*owner) : kNoOwner;
}

int64_t rt::ownerOf(CommandOpInterface command) {
  auto begin = dyn_cast<BeginOp>(command.getOperation());
  if (auto wait = dyn_cast<WaitOp>(command.getOperation()))
    for (Operation *user : wait.getToken().getUsers())
      if (auto signals = dyn_cast<BeginOp>(user))
        begin = signals;
  if (begin && collectiveOf(begin.getKind()))
    return kNoOwner;
  if (begin)
    command = begin;
  for (const MemoryAccess &access : command.getAccesses())
    if (int64_t owner = ownerOf(slotOf(access.slot)); owner != kNoOwner)
      return owner;
  return kNoOwner;
}

SmallVector<int64_t> rt::ownersOf(rt::ProgramOp program) {
  llvm::SmallSetVector<int64_t, 8> owners;
  for (SlotOp slot : program.getBody().front().getOps<SlotOp>())
    owners.insert(ownerOf(slot));
  if (owners.size() > 1)
    owners.remove(kNoOwner);
  if (owners.empty())
    owners.insert(kNoOwner);
  return SmallVector<int64_t>(owners.begin(), owners.end());
}

std::vector<int64_t> rt::liveBytes(rt::ProgramOp program, MemorySpace memory,
                                   bool oneInFlight) {
  auto commands = static_cast<int64_t>(commandsOf(program).size());
  std::optional<MicrobatchCommands> microbatches;
  if (!oneInFlight)
    microbatches = microbatchesOf(program);
  std::vector<int64_t> most(commands, 0);
  for (int64_t owner : ownersOf(program)) {
    std::vector<int64_t> live(commands + 1, 0);
    for (SlotOp slot : program.getBody().front().getOps<SlotOp>()) {
      if (slot.getState() || slot.getMemory() != memory || !exists(slot, owner))
        continue;
      auto bytes = static_cast<int64_t>(
          llvm::alignTo(oneInFlight ? static_cast<int64_t>(slot.getBytes())
                                    : slot.getTotalBytes(),
                        abi::slotAlignment));
      auto [first, last] = occupancyOf(slot, microbatches);
      // A slot that no command accesses has the lifetime [0, 0]. If there are
      // no commands, this lifetime ends beyond `live`, so limit its end.
      live[std::min(first, commands)] += bytes;
      live[std::min(last + 1, commands)] -= bytes;
    }
    std::partial_sum(live.begin(), live.end(), live.begin());
    for (auto [all, bytes] : llvm::zip(most, live))
      all = std::max(all, bytes);
  }
  return most;
}
