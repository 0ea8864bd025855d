//===- CommandTable.cpp - Executable form of a program's commands ---------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandTable.h"

#include "Collectives.h"
#include "CommandWalk.h"
#include "GemmTiles.h"

#include <algorithm>
#include <cstring>

namespace kiln::runtime {

/// Bytes per chunk of a fill or a copy. Each chunk is processed by one thread.
static constexpr int64_t transferChunkBytes = 256 * 1024;

/// Returns true if a reference or an immediate of `call` differs between
/// executions of the command.
static bool varies(const KernelCall &call) {
  return std::any_of(call.args.begin(), call.args.end(),
                     [](const Ref &ref) { return !ref.isFixed(); }) ||
         std::any_of(call.immediates.begin(), call.immediates.end(),
                     [](const Immediate &imm) { return imm.afterFirst != 0; });
}

CommandTable::CommandTable(const Program &program, const Arenas &arenas,
                           ThreadTeam &team, const void *const *kernels,
                           const support::Mesh &mesh, int rank)
    : program_(program), team_(team) {
  for (ArenaKind kind : arenaKinds)
    bases_[std::size_t(kind)] = arenas.of(kind).data();
  steps_.reserve(program.commands.size());
  for (const Command &command : program.commands) {
    Step step;
    step.command = &command;
    if (command.kernel >= 0)
      step.kernel = reinterpret_cast<KernelFunction>(
          const_cast<void *>(kernels[command.kernel]));
    if (command.axis >= 0) {
      assert(std::size_t(command.axis) < mesh.axes.size());
      step.group =
          mesh.groupOf(mesh.axes[std::size_t(command.axis)].name, rank);
      step.index = step.group.indexOf(rank);
    }
    step.firstArg = args_.size();
    step.firstImmediate = immediates_.size();
    step.firstSpan = spans_.size();
    for (const CollectiveTensor &tensor : command.tensors) {
      CollectiveSpan &span = spans_.emplace_back();
      span.count = tensor.whole.count;
      span.shardCount = tensor.shard.count;
      span.owner = tensor.owner;
    }
    setEnds(command.collective, spans_.data() + step.firstSpan,
            command.tensors.size());
    if (command.call) {
      const KernelCall &call = *command.call;
      step.chunks = (call.units + command.grain - 1) / command.grain;
      step.varies = varies(call);
      args_.resize(args_.size() + call.args.size());
      immediates_.resize(immediates_.size() + call.immediates.size());
      if (command.epilogue)
        epilogueImmediates_ =
            std::max(epilogueImmediates_, call.immediates.size() + 2);
    }
    steps_.push_back(step);
    resolve(step, outsideMicrobatches());
  }
  // Pad the entries of each thread, so that no two threads write to the same
  // cache line.
  epilogueImmediates_ = (epilogueImmediates_ + 15) / 8 * 8;
  threadImmediates_.resize(epilogueImmediates_ * std::size_t(team.size()));
}

void CommandTable::resolve(const Step &step, const abi::SegmentRun &run) {
  if (!step.command->call)
    return;
  char **args = args_.data() + step.firstArg;
  int64_t *immediates = immediates_.data() + step.firstImmediate;
  for (const Ref &ref : step.command->call->args)
    *args++ = at(ref, run);
  for (const Immediate &immediate : step.command->call->immediates)
    *immediates++ = immediate.at(run);
}

void CommandTable::run(CommandObserver *observer, Transfers *chosen) {
  SerialTransfers serial(SerialTransfers::When::Start);
  Transfers &transfers = chosen ? *chosen : serial;
  transfers.begin();
  if (observer)
    observer->begin();
  for (CommandWalk walk(program_); walk.next();) {
    std::size_t command = walk.command();
    if (observer)
      observer->before(command, walk.run());
    transfers.between();
    execute(command, walk.run(), transfers);
    if (observer)
      observer->after(command, walk.run());
  }
}

void CommandTable::startTransfer(std::size_t index, const abi::SegmentRun &run,
                                 Transfers &transfers) {
  const Command &command = *steps_[index].command;
  TransferJob job;
  if (command.tensors.empty()) {
    job.from = at(command.from, run);
    job.to = at(command.to, run);
  } else {
    // A collective command has at most one transfer in flight. Therefore a new
    // transfer of the command may overwrite the spans of the previous one.
    CollectiveSpan *spans = spans_.data() + steps_[index].firstSpan;
    for (const CollectiveTensor &tensor : command.tensors) {
      spans->whole = at(tensor.whole.ref, run);
      if (command.collective != Collective::AllReduce)
        spans->shard = at(tensor.shard.ref, run);
      ++spans;
    }
    job.spans = spans_.data() + steps_[index].firstSpan;
    job.spanCount = command.tensors.size();
    job.collective = command.collective;
    job.group = steps_[index].group;
  }
  job.bytes = command.size;
  job.kind = transferKind(command);
  job.token = command.token.at(run);
  job.command = index;
  job.type = command.type;
  job.name = command.name.c_str();
  transfers.start(job);
}

void CommandTable::execute(std::size_t index, const abi::SegmentRun &run,
                           Transfers &transfers) {
  const Step &step = steps_[index];
  if (step.varies)
    resolve(step, run);
  struct Executor {
    CommandTable &table;
    const Step &step;
    std::size_t index;
    const abi::SegmentRun &run;
    Transfers &transfers;

    void launch() { table.launch(step); }
    void gemm() { table.gemm(step, run); }
    void fill() { table.fill(step, run); }
    void copy() { table.copy(step, run); }
    void startCopy() { table.startTransfer(index, run, transfers); }
    void startCollective() { startCopy(); }
    void waitForTransfer() { transfers.wait(step.command->token.at(run)); }
  };
  runtime::execute(*step.command, Executor{*this, step, index, run, transfers});
}

void CommandTable::launch(const Step &step) {
  const Command &command = *step.command;
  char *const *args = args_.data() + step.firstArg;
  const int64_t *immediates = immediates_.data() + step.firstImmediate;
  team_.forEachPart(step.chunks, [&](int64_t begin, int64_t end, int thread) {
    step.kernel(args, immediates, begin * command.grain,
                std::min(command.call->units, end * command.grain),
                deviceAt(command.scratch.offset) +
                    command.scratch.bytesPerThread * thread);
  });
}

void CommandTable::gemm(const Step &step, const abi::SegmentRun &run) {
  const Command &command = *step.command;
  GemmPlaces places = {at(command.a.ref, run), at(command.b.ref, run),
                       at(command.c.ref, run)};
  bool accumulate = accumulates(command, run);
  char *workspace = deviceAt(command.workspace.offset);
  int64_t scratchBytes = tileScratchBytes(command);

  auto runTile = [&](int64_t index, int thread) {
    GemmTile tile = gemmTile(command, index);
    if (tile.empty())
      return;
    computeTile(command, tile, places, accumulate,
                workspace + scratchBytes * thread);
    if (!command.epilogue)
      return;
    int64_t *immediates =
        threadImmediates_.data() + epilogueImmediates_ * std::size_t(thread);
    immediates[0] = tile.columnBegin;
    immediates[1] = tile.columnEnd;
    std::copy_n(immediates_.data() + step.firstImmediate,
                command.call->immediates.size(), immediates + 2);
    step.kernel(args_.data() + step.firstArg, immediates, tile.rowBegin,
                tile.rowEnd,
                deviceAt(command.scratch.offset) +
                    command.scratch.bytesPerThread * thread);
  };
  team_.forEachPart(gemmTiles(command),
                    [&](int64_t begin, int64_t end, int thread) {
                      for (int64_t tile = begin; tile < end; ++tile)
                        runTile(tile, thread);
                    });
}

void CommandTable::fill(const Step &step, const abi::SegmentRun &run) {
  char *to = at(step.command->to, run);
  int64_t size = step.command->size;
  team_.forEachPart((size + transferChunkBytes - 1) / transferChunkBytes,
                    [=](int64_t begin, int64_t end, int) {
                      begin *= transferChunkBytes;
                      end = std::min(end * transferChunkBytes, size);
                      std::memset(to + begin, 0, std::size_t(end - begin));
                    });
}

void CommandTable::copy(const Step &step, const abi::SegmentRun &run) {
  const Command &command = *step.command;
  const char *from = at(command.from, run);
  char *to = at(command.to, run);
  // A copy of a shard copies the shard of this rank, and writes zeros to the
  // part of the shard beyond the end of the whole tensor.
  int64_t size = command.size;
  if (command.wholeBytes > 0) {
    CopiedShard shard = copiedShard(command, step.index);
    from += shard.begin;
    size = shard.size;
  }
  team_.forEachPart((size + transferChunkBytes - 1) / transferChunkBytes,
                    [=](int64_t first, int64_t last, int) {
                      first *= transferChunkBytes;
                      last = std::min(last * transferChunkBytes, size);
                      std::memcpy(to + first, from + first,
                                  std::size_t(last - first));
                    });
  std::memset(to + size, 0, std::size_t(command.size - size));
}

} // namespace kiln::runtime
