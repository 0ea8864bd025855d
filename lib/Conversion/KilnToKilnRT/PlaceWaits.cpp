//===- PlaceWaits.cpp - Waits between the queues of a program ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlaceWaits.h"

using namespace mlir;
using namespace kiln;

namespace {

/// A byte range of the device arena.
struct ByteRange {
  int64_t begin, end;
  bool overlaps(const ByteRange &other) const {
    return begin < other.end && other.begin < end;
  }
};

/// A byte range in device memory that commands of the host access.
struct Scalar {
  ByteRange range;
  /// True if the device has written the range since the host last waited for
  /// the device.
  bool isWritten = false;
  /// True if the host has read the range since the device last waited for the
  /// host.
  bool isRead = false;
};

/// A memory access by a command that the host executes.
struct HostAccess {
  MemorySpace memory;
  ByteRange range;
  bool writes;
};

class WaitPlacer {
public:
  WaitPlacer(rt::ProgramOp program, QueueTable &queues)
      : program(program), queues(queues) {}
  void run();

private:
  void order(rt::CommandOpInterface command);
  void orderTransfer(rt::BeginOp begin);
  void placeTransferWaits(ArrayRef<Operation *> commands);

  /// Returns MemorySpace::Host if `command` is in the queue of the commands on
  /// host memory, and MemorySpace::Device otherwise.
  MemorySpace queueMemory(rt::CommandOpInterface command) {
    bool onHost = command.getQueueAttr() == queues.lookup(MemorySpace::Host);
    return onHost ? MemorySpace::Host : MemorySpace::Device;
  }

  rt::ProgramOp program;
  QueueTable &queues;
  SmallVector<Scalar> scalars;
  /// The accesses of the host commands that have been executed. complete[q] is
  /// the number of these accesses that are complete when the next transfer of
  /// queue q starts.
  SmallVector<HostAccess> hostAccesses;
  DenseMap<Attribute, size_t> complete;
};

} // namespace

/// Returns the byte range of the slot of an access, including all instances if
/// the slot has several, which micro-batches use in turn.
static ByteRange rangeOf(const rt::MemoryAccess &access) {
  rt::SlotOp slot = rt::slotOf(access.slot);
  auto begin = static_cast<int64_t>(slot.getOffset());
  return {begin, begin + slot.getTotalBytes()};
}

static bool isOnDevice(const rt::MemoryAccess &access) {
  return rt::slotOf(access.slot).getMemory() == MemorySpace::Device;
}

/// Makes a command of the host wait for the device if the command reads a
/// scalar that the device wrote. Makes a command of the device wait for the
/// host if the command writes a scalar that the host read.
void WaitPlacer::order(rt::CommandOpInterface command) {
  bool onHost = queueMemory(command) == MemorySpace::Host;
  SmallVector<Scalar *> touched;
  for (const rt::MemoryAccess &access : command.getAccesses()) {
    if (!isOnDevice(access) || (!onHost && !access.writes()))
      continue;
    for (Scalar &scalar : scalars)
      if (rangeOf(access).overlaps(scalar.range))
        touched.push_back(&scalar);
  }
  if (llvm::any_of(touched, [&](Scalar *scalar) {
        return onHost ? scalar->isWritten : scalar->isRead;
      })) {
    Attribute other =
        queues.lookup(onHost ? MemorySpace::Device : MemorySpace::Host);
    command->setAttr("after", ArrayAttr::get(command.getContext(), other));
    // When `command` starts, all earlier commands of the queue `other` are
    // complete.
    for (Scalar &scalar : scalars)
      (onHost ? scalar.isWritten : scalar.isRead) = false;
  }
  for (Scalar *scalar : touched)
    (onHost ? scalar->isRead : scalar->isWritten) = true;
}

/// Appends the accesses of a command of the host to `accesses`.
static void addAccesses(rt::CommandOpInterface command,
                        SmallVectorImpl<HostAccess> &accesses) {
  for (const rt::MemoryAccess &access : command.getAccesses())
    accesses.push_back({rt::slotOf(access.slot).getMemory(), rangeOf(access),
                        access.writes()});
}

/// Returns true if a transfer accesses bytes that a command of the host
/// accesses, and at least one of the two writes them.
static bool conflicts(rt::BeginOp begin, ArrayRef<HostAccess> accesses) {
  for (const rt::MemoryAccess &access : begin.getAccesses()) {
    MemorySpace memory = rt::slotOf(access.slot).getMemory();
    ByteRange range = rangeOf(access);
    if (llvm::any_of(accesses, [&](const HostAccess &other) {
          return other.memory == memory && other.range.overlaps(range) &&
                 (other.writes || access.writes());
        }))
      return true;
  }
  return false;
}

/// Makes a transfer wait for the commands of the host if one of them conflicts
/// with the transfer and is not known to be complete.
void WaitPlacer::orderTransfer(rt::BeginOp begin) {
  size_t &known = complete[begin.getQueueAttr()];
  if (!conflicts(begin, ArrayRef(hostAccesses).drop_front(known)))
    return;
  begin.setAfterAttr(queues.getExecuting());
  known = hostAccesses.size();
}

/// Makes every transfer start only when the earlier commands of the device are
/// complete. A wait for a transfer blocks the device. If any command of the
/// host conflicts with the transfer, makes the wait block the host, too.
void WaitPlacer::placeTransferWaits(ArrayRef<Operation *> commands) {
  ArrayAttr executing = queues.getExecuting();
  SmallVector<HostAccess> accesses;
  for (Operation *op : commands)
    if (auto command = dyn_cast<rt::CommandOpInterface>(op);
        command && queueMemory(command) == MemorySpace::Host)
      addAccesses(command, accesses);
  for (Operation *op : commands) {
    auto begin = dyn_cast<rt::BeginOp>(op);
    if (!begin)
      continue;
    begin.setAfterAttr(ArrayAttr::get(program.getContext(), executing[0]));
    if (executing.size() == 1 || !conflicts(begin, accesses))
      continue;
    auto others =
        ArrayAttr::get(program.getContext(), executing.getValue().drop_front());
    for (Operation *user : begin.getToken().getUsers())
      if (auto wait = dyn_cast<rt::WaitOp>(user))
        wait.setTooAttr(others);
  }
}

void WaitPlacer::run() {
  SmallVector<Operation *> commands = rt::commandsOf(program);
  for (Operation *op : commands) {
    auto command = dyn_cast<rt::CommandOpInterface>(op);
    if (!command || queueMemory(command) != MemorySpace::Host)
      continue;
    for (const rt::MemoryAccess &access : command.getAccesses())
      if (isOnDevice(access) && access.view)
        scalars.push_back({rangeOf(access)});
  }
  placeTransferWaits(commands);
  // If commands on host memory have no queue of their own, one queue executes
  // all commands except transfers in order, and no other waits are necessary.
  if (!queues.lookup(MemorySpace::Host))
    return;
  // Commands also depend on commands of earlier executions of the forward and
  // backward segments.
  for (const rt::SegmentExecution &execution :
       rt::executionsOf(program, /*shortened=*/true))
    for (int64_t i = execution.begin; i < execution.end; ++i) {
      if (!rt::isExecuted(commands[i], execution))
        continue;
      if (auto begin = dyn_cast<rt::BeginOp>(commands[i])) {
        orderTransfer(begin);
      } else if (!isa<rt::WaitOp>(commands[i])) {
        auto command = cast<rt::CommandOpInterface>(commands[i]);
        order(command);
        if (queueMemory(command) == MemorySpace::Host)
          addAccesses(command, hostAccesses);
      }
    }
}

void kiln::placeWaits(rt::ProgramOp program, QueueTable &queues) {
  WaitPlacer(program, queues).run();
}

//===----------------------------------------------------------------------===//
// Queues
//===----------------------------------------------------------------------===//

FlatSymbolRefAttr QueueTable::get(Kind kind) {
  if (names[kind])
    return names[kind];
  bool onDevice = kind == Compute && overlap;
  const std::pair<StringRef, rt::Engine> facts[] = {
      {"compute", onDevice ? rt::Engine::Device : rt::Engine::Host},
      {"host", rt::Engine::Host},
      {"copy_out", rt::Engine::Link},
      {"copy_in", rt::Engine::Link}};
  return names[kind] = declare(facts[kind].first, facts[kind].second);
}

FlatSymbolRefAttr QueueTable::declare(StringRef name, rt::Engine engine) {
  OpBuilder builder(module.getContext());
  auto queue = rt::QueueOp::create(builder, module.getLoc(), name, engine);
  // The symbol table renames the queue if a state has its name.
  symbols.insert(queue, Block::iterator(*module.getOps<rt::ArenaOp>().begin()));
  return FlatSymbolRefAttr::get(queue.getSymNameAttr());
}

FlatSymbolRefAttr QueueTable::reducing(StringRef axis) {
  FlatSymbolRefAttr &name = ofAxis[axis];
  if (!name)
    name = declare(axis, rt::Engine::Link);
  return name;
}

FlatSymbolRefAttr QueueTable::executing(MemorySpace memory) {
  return get(memory == MemorySpace::Host && overlap ? Host : Compute);
}

FlatSymbolRefAttr QueueTable::copyingTo(MemorySpace memory) {
  return get(memory == MemorySpace::Host ? CopyOut : CopyIn);
}

ArrayAttr QueueTable::getExecuting() {
  SmallVector<Attribute> executing;
  for (Kind kind : {Compute, Host})
    if (names[kind])
      executing.push_back(names[kind]);
  return ArrayAttr::get(module.getContext(), executing);
}
