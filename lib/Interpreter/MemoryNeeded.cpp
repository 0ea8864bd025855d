//===- MemoryNeeded.cpp - Check of the interpreter's memory use -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the peak memory of programs from the lifetimes of their values.
//
//===----------------------------------------------------------------------===//

#include "kiln/Interpreter/MemoryNeeded.h"

#include "kiln/Interpreter/ScheduledEngine.h"

#include "llvm/Support/MathExtras.h"

#include <unistd.h>

using namespace mlir;
using namespace kiln;

/// Returns the bytes of a value in the interpreter. Cannot overflow, because
/// extents are bounded; see hasSaneExtents.
static uint64_t valueBytes(Type type) {
  return 8 *
         static_cast<uint64_t>(cast<RankedTensorType>(type).getNumElements());
}

static uint64_t valueBytes(TypeRange types) {
  uint64_t bytes = 0;
  for (Type type : types)
    bytes = llvm::SaturatingAdd(bytes, valueBytes(type));
  return bytes;
}

static uint64_t peakOf(Block &block);

/// Returns the peak bytes of the segments of micro-batches. While a segment
/// runs, the following values are in memory:
///   - copies of the micro-batch's slices of the inputs
///   - the sums of the results over the micro-batches so far
///   - the residuals of all micro-batches in flight; a forward segment computes
///     those of its own micro-batch, which are not counted a second time
static uint64_t peakOf(MicrobatchesOp op) {
  auto inFlight =
      static_cast<uint64_t>(op.getSegmentOrder().slots(op.getCount()));
  uint64_t residuals = valueBytes(op.getResiduals().getTypes());
  uint64_t peak = llvm::SaturatingMultiplyAdd(inFlight, residuals,
                                              peakOf(op.getBackward()));
  if (op.isDivided())
    peak = std::max(peak, llvm::SaturatingMultiplyAdd(inFlight - 1, residuals,
                                                      peakOf(op.getForward())));
  Block::BlockArgListType arguments = op.getBackward().getArguments();
  uint64_t parts = valueBytes(
      ValueRange(arguments.take_front(op.getSliced().size())).getTypes());
  uint64_t sums = valueBytes(op.getResultTypes());
  return llvm::SaturatingAdd(peak, parts, sums);
}

/// Returns the peak bytes of the results of a block's ops. Each result is
/// released after its last reader.
static uint64_t peakOf(Block &block) {
  DenseMap<Operation *, uint64_t> dying;
  uint64_t live = 0, peak = 0;
  for (Operation &op : block) {
    live = llvm::SaturatingAdd(live, valueBytes(op.getResultTypes()));
    uint64_t inner = 0;
    if (auto microbatches = dyn_cast<MicrobatchesOp>(op))
      inner = peakOf(microbatches);
    else if (op.getNumRegions() > 0)
      // The arguments of the region are operands of the op, which are not
      // copied.
      inner = peakOf(op.getRegion(0).front());
    peak = std::max(peak, llvm::SaturatingAdd(live, inner));
    for (Value result : op.getResults()) {
      Operation *last = &op;
      for (Operation *user : result.getUsers()) {
        Operation *inBlock = block.findAncestorOpInBlock(*user);
        if (last->isBeforeInBlock(inBlock))
          last = inBlock;
      }
      dying[last] =
          llvm::SaturatingAdd(dying[last], valueBytes(result.getType()));
    }
    if (live != UINT64_MAX)
      live -= dying.lookup(&op);
  }
  return peak;
}

namespace {

/// The largest number of bytes needed so far, and the op that needs them.
struct Need {
  uint64_t bytes = 0;
  Operation *place = nullptr;

  void atLeast(uint64_t others, Operation *at) {
    if (!place || others > bytes) {
      bytes = others;
      place = at;
    }
  }
};

} // namespace

/// Returns the bytes needed in addition to the arena. A command needs the bytes
/// of its operands and of the values that it computes. Returns the maximum over
/// all commands.
static Need needOfKernels(ModuleOp module) {
  Need need;
  for (rt::KernelOp kernel : module.getOps<rt::KernelOp>()) {
    Block &body = kernel.getBody().front();
    need.atLeast(
        llvm::SaturatingAdd(peakOf(body), valueBytes(body.getArgumentTypes())),
        kernel);
  }
  module.walk([&](rt::GemmOp gemm) {
    uint64_t m = gemm.getM(), n = gemm.getN(), k = gemm.getK(),
             batch = gemm.getBatch();
    need.atLeast(8 * batch * (m * k + k * n + m * n), gemm);
  });
  return need;
}

Status kiln::checkMemoryNeeded(ModuleOp module) {
  uint64_t common = 0;
  auto add = [&](uint64_t bytes) {
    common = llvm::SaturatingAdd(common, bytes);
  };
  // The driver and the interpreter each have a copy of the states.
  for (StateOp state : module.getOps<StateOp>())
    add(2 * valueBytes(state.getType()));
  Need most;
  for (ProgramOp program : module.getOps<ProgramOp>()) {
    add(valueBytes(program.getArgumentTypes()));
    add(valueBytes(program.getResultTypes()));
    most.atLeast(llvm::SaturatingAdd(peakOf(program.getBlock()),
                                     valueBytes(program.getArgumentTypes())),
                 program);
  }
  // Every unit of an arena has shadow memory. Assume units of 2 bytes: units of
  // 1 byte are rare, and need less than twice as much memory.
  constexpr uint64_t perByte = 1 + sizeof(InterpretedArena::Writer) / 2;
  for (rt::ArenaOp arena : module.getOps<rt::ArenaOp>())
    add(perByte * (arena.getHeight() + arena.getHostHeight()));
  module.walk(
      [&](rt::OutputOp output) { add(valueBytes(output.getTensorType())); });
  if (Need kernels = needOfKernels(module); kernels.place)
    most.atLeast(kernels.bytes, kernels.place);

  uint64_t memory = static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) *
                    static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
  uint64_t needed = llvm::SaturatingAdd(common, most.bytes);
  if (needed <= memory)
    return Status();
  Operation *place = most.bytes > common ? most.place : nullptr;
  std::string what = "the module";
  if (place)
    if (auto name =
            place->getAttrOfType<StringAttr>(SymbolTable::getSymbolAttrName()))
      what = "@" + name.str();
  return Status::error(what + " needs " + std::to_string(needed) +
                       " bytes to be interpreted, but this machine has " +
                       std::to_string(memory) +
                       "; interpret a smaller model, or compile the model");
}
