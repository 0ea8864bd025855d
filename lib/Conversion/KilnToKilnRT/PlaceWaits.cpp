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

class WaitPlacer {
public:
  WaitPlacer(rt::ProgramOp program, QueueTable &queues)
      : program(program), queues(queues) {}
  void run();

private:
  void order(rt::CommandOpInterface command);

  /// Returns the memory whose commands the queue of `command` executes.
  MemorySpace queueMemory(rt::CommandOpInterface command) {
    bool onHost = command.getQueueAttr() == queues.lookup(MemorySpace::Host);
    return onHost ? MemorySpace::Host : MemorySpace::Device;
  }

  rt::ProgramOp program;
  QueueTable &queues;
  SmallVector<Scalar> scalars;
};

} // namespace

/// Returns the byte range of the slot of an access, with all instances of a
/// slot with a ring.
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
  ArrayAttr executing = queues.getExecuting();
  for (Operation *op : commands) {
    if (auto begin = dyn_cast<rt::BeginOp>(op)) {
      begin.setAfterAttr(executing);
    } else if (auto wait = dyn_cast<rt::WaitOp>(op)) {
      if (executing.size() > 1)
        wait.setTooAttr(ArrayAttr::get(wait.getContext(),
                                       executing.getValue().drop_front()));
    }
  }
  if (scalars.empty())
    return;
  // Commands also depend on commands of earlier executions of the segments.
  for (const rt::SegmentExecution &execution :
       rt::executionsOf(program, /*shortened=*/true))
    for (int64_t i = execution.begin; i < execution.end; ++i)
      if (!isa<rt::BeginOp, rt::WaitOp>(commands[i]) &&
          rt::isExecuted(commands[i], execution))
        order(cast<rt::CommandOpInterface>(commands[i]));
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
  OpBuilder builder(module.getContext());
  auto queue = rt::QueueOp::create(builder, module.getLoc(), facts[kind].first,
                                   facts[kind].second);
  // The symbol table renames the queue if a state has its name.
  symbols.insert(queue, Block::iterator(*module.getOps<rt::ArenaOp>().begin()));
  return names[kind] = FlatSymbolRefAttr::get(queue.getSymNameAttr());
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
