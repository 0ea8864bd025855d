//===- StepCost.cpp - Cost of ops and commands ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "StepCost.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln;

/// Returns the seconds of a GEMM, of attention or of its gradient, or
/// std::nullopt for any other op.
static std::optional<double> computeSeconds(Operation *op,
                                            const Machine &machine) {
  auto attention = [&](Value q, int64_t heads, int64_t sequences, bool causal,
                       bool backward) {
    auto shape = tensorTypeOf(q).getShape();
    return machine.attentionSeconds(elementTypeOf(q.getType()),
                                    sequences * heads, shape[0] / sequences,
                                    shape[1] / heads, causal, backward);
  };
  // An epilogue works on the accumulators in registers and is free, but its aux
  // output is written to memory.
  if (auto gemm = dyn_cast<GemmOpInterface>(op))
    return machine.gemmSeconds(elementTypeOf(gemm.getLeft().getType()),
                               gemm.getBatch(), gemm.getM(), gemm.getN(),
                               gemm.getK()) +
           (gemm.getAux() ? machine.memorySeconds(
                                double(bytesOf(gemm.getAux().getType())))
                          : 0);
  if (auto forward = dyn_cast<AttentionOp>(op))
    return attention(forward.getQ(), forward.getHeads(), forward.getSequences(),
                     forward.getCausal(), false);
  if (auto backward = dyn_cast<AttentionGradOp>(op))
    return attention(backward.getQ(), backward.getHeads(),
                     backward.getSequences(), backward.getCausal(), true);
  return std::nullopt;
}

/// Returns the seconds of a collective on whole tensors of `bytes` bytes. An
/// all-reduce is a reduce-scatter, followed by an all-gather.
static double collectiveSeconds(Collective collective, double bytes,
                                Operation *op, StringRef axis,
                                const Machine &machine) {
  int64_t ranks = meshSizeOf(op->getParentOfType<ModuleOp>(), axis);
  return (collective == Collective::AllReduce ? 2 : 1) *
         machine.ringSeconds(bytes, ranks);
}

/// Returns the seconds of a collective that nothing overlaps with.
static double collectiveSeconds(CollectiveOpInterface op,
                                const Machine &machine) {
  bool gathers = op.getCollective() == Collective::AllGather;
  double bytes = 0;
  for (Type type : gathers ? TypeRange(op->getResultTypes())
                           : TypeRange(op->getOperandTypes()))
    bytes += bytesOf(type);
  return collectiveSeconds(op.getCollective(), bytes, op, op.getAxisAttr(),
                           machine);
}

double kiln::opSeconds(Operation *op, const Machine &machine) {
  if (auto seconds = computeSeconds(op, machine))
    return *seconds;
  Family family = familyOf(op);
  if (family == Family::View || family == Family::Structure)
    return 0;
  if (auto collective = dyn_cast<CollectiveOpInterface>(op))
    return collectiveSeconds(collective, machine);
  // Count the bytes of the results, but not those of the operands, because a
  // fused op reads its operands from registers. If all operands are states,
  // they are read from memory.
  double bytes = 0;
  for (Type type : op->getResultTypes())
    bytes += bytesOf(type);
  if (llvm::all_of(op->getOperands(), [](Value operand) {
        return operand.getDefiningOp<ReadOp>();
      }))
    for (Type type : op->getOperandTypes())
      bytes += bytesOf(type);
  return machine.memorySeconds(bytes);
}

/// Returns the bytes that a kernel accesses. A row kernel that gathers rows may
/// read only a part of a table. Therefore counts at most one element of each
/// operand per row and column of the iteration space of such a kernel.
static double bytesTouched(Block &body, Family family,
                           std::optional<ArrayRef<int64_t>> space) {
  double bytes = 0;
  for (Type type : body.getArgumentTypes()) {
    double whole = bytesOf(type);
    if (space && family == Family::Row) {
      double width = elementBytes(type);
      bool gathers = llvm::any_of(body, [](Operation &op) {
        auto dispatchable = dyn_cast<DispatchableOpInterface>(op);
        return dispatchable && dispatchable.gathersRows();
      });
      if (gathers)
        whole =
            std::min(whole, double((*space)[0]) * double((*space)[1]) * width);
    }
    bytes += whole;
  }
  for (Value value : body.getTerminator()->getOperands())
    bytes += bytesOf(value.getType());
  return bytes;
}

/// Returns the seconds of one run of a kernel with this body.
static double kernelSeconds(Block &body, Family family,
                            std::optional<ArrayRef<int64_t>> space,
                            MemorySpace memory, const Machine &machine) {
  double operations = 0;
  for (Operation &op : body.without_terminator()) {
    if (auto seconds = computeSeconds(&op, machine))
      return machine.launchSeconds + *seconds;
    if (auto dispatchable = dyn_cast<DispatchableOpInterface>(op))
      operations += double(dispatchable.getFlops());
  }
  double bytes = bytesTouched(body, family, space);
  return memory == MemorySpace::Host
             ? machine.hostKernelSeconds(bytes, operations)
             : machine.kernelSeconds(bytes, operations);
}

double kiln::dispatchSeconds(Operation *op, const Machine &machine,
                             MemorySpace memory) {
  if (auto dispatch = dyn_cast<DispatchOp>(op))
    return kernelSeconds(dispatch.getBody().front(), dispatch.getFamily(),
                         dispatch.getSpace(), memory, machine);
  return computeSeconds(op, machine).value_or(0);
}

/// Returns the seconds of an epilogue. The tile of the GEMM result that an
/// epilogue reads is in the cache, and the epilogue may overwrite the tile.
/// Only other accesses go to memory.
static double epilogueSeconds(rt::GemmOp gemm, rt::KernelOp kernel,
                              const Machine &machine) {
  Block &body = kernel.getBody().front();
  double operations = 0;
  for (Operation &op : body.without_terminator())
    if (auto dispatchable = dyn_cast<DispatchableOpInterface>(op))
      operations += double(dispatchable.getFlops());
  double matmul = bytesOf(body.getArgument(0).getType());
  double bytes =
      bytesTouched(body, kernel.getFamily(), kernel.getSpace()) - matmul;
  Value c = gemm.getMatrix(2).getSlot();
  if (llvm::any_of(gemm.getEpilogueWrites(), [&](Value place) {
        return rt::viewOf(place).getSlot() == c;
      }))
    bytes -= matmul;
  return std::max(machine.memorySeconds(bytes),
                  operations / machine.vectorFlops);
}

double kiln::commandSeconds(Operation *command, const Machine &machine,
                            KernelSeconds &kernels) {
  if (auto launch = dyn_cast<rt::LaunchOp>(command)) {
    MemorySpace memory = rt::memoryOf(launch);
    double &seconds =
        kernels.try_emplace({launch.getKernel(), memory}, -1).first->second;
    if (seconds < 0) {
      auto kernel = cast<rt::KernelOp>(
          SymbolTable::lookupNearestSymbolFrom(launch, launch.getKernelAttr()));
      seconds = kernelSeconds(kernel.getBody().front(), kernel.getFamily(),
                              kernel.getSpace(), memory, machine);
    }
    return seconds;
  }
  if (auto gemm = dyn_cast<rt::GemmOp>(command)) {
    double seconds =
        machine.gemmSeconds(elementTypeOf(gemm.getElement()), gemm.getBatch(),
                            gemm.getM(), gemm.getN(), gemm.getK());
    if (gemm.getAux())
      seconds += machine.memorySeconds(
          double(elementBytes(gemm.getElement(), gemm.getM() * gemm.getN())));
    if (gemm.getEpilogue())
      seconds += epilogueSeconds(
          gemm,
          cast<rt::KernelOp>(SymbolTable::lookupNearestSymbolFrom(
              gemm, gemm.getEpilogueAttr())),
          machine);
    return seconds;
  }
  if (auto fill = dyn_cast<rt::FillOp>(command))
    return machine.kernelSeconds(double(fill.getBytes()));
  if (auto copy = dyn_cast<rt::CopyOp>(command))
    return machine.kernelSeconds(2 * double(copy.getBytes()));
  return 0;
}

double QueueClocks::idle(ArrayAttr queues) const {
  double time = 0;
  if (queues)
    for (Attribute queue : queues)
      time = std::max(time, now.lookup(queue));
  return time;
}

void QueueClocks::run(Attribute queue, ArrayAttr after, double seconds) {
  now[queue] = std::max(now[queue], idle(after)) + seconds;
}

void QueueClocks::start(Key copy, ArrayAttr after, double bytes,
                        LinkDirection direction) {
  // In half duplex, both directions share the link and wait for each other.
  double &free = machine.link.duplex
                     ? freeFrom[direction == LinkDirection::ToDevice]
                     : freeFrom[0];
  free = std::max(free, idle(after)) + machine.linkSeconds(bytes, direction);
  doneAt[copy] = free;
}

void QueueClocks::startCollective(Key transfer, Attribute queue,
                                  ArrayAttr after, double seconds) {
  double &free = freeOfQueue[queue];
  free = std::max(free, idle(after)) + seconds;
  doneAt[transfer] = free;
}

void QueueClocks::wait(Attribute queue, Key copy) {
  now[queue] = std::max(now[queue], doneAt.lookup(copy));
}

double QueueClocks::end() const {
  double time = 0;
  for (auto [queue, busyUntil] : now)
    time = std::max(time, busyUntil);
  return time;
}

void QueueClocks::advance(double seconds) {
  for (auto &entry : now)
    entry.second += seconds;
}

/// Simulates the commands of a block that run in `execution`, which is one
/// execution of the block.
static void runBlock(Block &block, const rt::SegmentExecution &execution,
                     const Machine &machine, KernelSeconds &kernels,
                     QueueClocks &clocks);

/// Returns true if the first or the last execution of the forward or backward
/// segment differs from the others.
static bool hasDifferingExecutions(rt::MicrobatchesOp op) {
  return op
      .walk([](rt::CommandOpInterface command) {
        return command.getWhen() == rt::When::Always ? WalkResult::advance()
                                                     : WalkResult::interrupt();
      })
      .wasInterrupted();
}

static void runMicrobatches(rt::MicrobatchesOp op, const Machine &machine,
                            KernelSeconds &kernels, QueueClocks &clocks) {
  SegmentOrder order = op.getSegmentOrder();
  auto count = static_cast<int64_t>(op.getCount());
  // If at most one micro-batch is in flight, simulate one that is neither the
  // first nor the last, and assume that all such micro-batches take the same
  // time. This is an approximation: copies of one micro-batch may delay the
  // copies of the next.
  int64_t repeated = -1, times = 1;
  if (order.slots(count) == 1) {
    bool differ = hasDifferingExecutions(op);
    order = SegmentOrder();
    repeated = differ ? 1 : 0;
    times = std::max<int64_t>(count - 2 * repeated, 1);
    count = std::min<int64_t>(count, 1 + 2 * repeated);
  }
  double begin = clocks.end();
  for (const SegmentRun &run : order.runs(count)) {
    bool isForward = run.segment == Segment::Forward;
    if (isForward)
      begin = clocks.end();
    runBlock((isForward ? op.getForward() : op.getBackward()).front(),
             {0, 0, run}, machine, kernels, clocks);
    if (!isForward && run.microbatch == repeated)
      clocks.advance((clocks.end() - begin) * double(times - 1));
  }
}

static void runBlock(Block &block, const rt::SegmentExecution &execution,
                     const Machine &machine, KernelSeconds &kernels,
                     QueueClocks &clocks) {
  auto keyOf = [&](Value token) {
    bool hasRing = token.getDefiningOp<rt::TokenOp>().getRing();
    return QueueClocks::Key(token.getAsOpaquePointer(),
                            hasRing && execution.run ? execution.run->slot : 0);
  };
  for (Operation &op : block) {
    if (isa<rt::CommandOpInterface>(op) && !rt::isExecuted(&op, execution))
      continue;
    if (auto microbatches = dyn_cast<rt::MicrobatchesOp>(op)) {
      runMicrobatches(microbatches, machine, kernels, clocks);
    } else if (auto begin = dyn_cast<rt::BeginOp>(op);
               begin && rt::collectiveOf(begin.getKind())) {
      clocks.startCollective(
          keyOf(begin.getToken()), begin.getQueueAttr(), begin.getAfterAttr(),
          collectiveSeconds(*rt::collectiveOf(begin.getKind()),
                            double(begin.getBytes()), begin, *begin.getAxis(),
                            machine));
    } else if (begin) {
      clocks.start(keyOf(begin.getToken()), begin.getAfterAttr(),
                   double(begin.getBytes()),
                   begin.isOut() ? LinkDirection::ToHost
                                 : LinkDirection::ToDevice);
    } else if (auto wait = dyn_cast<rt::WaitOp>(op)) {
      clocks.wait(wait.getQueueAttr(), keyOf(wait.getToken()));
      if (ArrayAttr others = wait.getTooAttr())
        for (Attribute queue : others)
          clocks.wait(queue, keyOf(wait.getToken()));
    } else if (auto command = dyn_cast<rt::CommandOpInterface>(op)) {
      clocks.run(command.getQueueAttr(), command.getAfterAttr(),
                 commandSeconds(&op, machine, kernels));
    }
  }
}

double kiln::programSeconds(rt::ProgramOp program, const Machine &machine) {
  KernelSeconds kernels;
  QueueClocks clocks(machine);
  runBlock(program.getBody().front(), {}, machine, kernels, clocks);
  return clocks.end();
}
