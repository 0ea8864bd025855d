//===- CommandTable.cpp - The commands of one program, resolved -----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "CommandTable.h"

#include "GemmTiles.h"

#include <algorithm>
#include <cstring>

namespace kiln {

/// Work of one thread at a time in fills and copies.
static constexpr int64_t transferChunkBytes = 256 * 1024;

static bool isStrided(const LaunchItem &item) {
  return std::any_of(item.args.begin(), item.args.end(),
                     [](const Ref &ref) { return ref.stride != 0; }) ||
         std::any_of(item.immediates.begin(), item.immediates.end(),
                     [](const Immediate &imm) { return imm.stride != 0; });
}

CommandTable::CommandTable(const Program &program, const Bases &arenas,
                           ThreadTeam &team, const void *const *kernels)
    : arenas_(arenas), team_(team) {
  steps_.reserve(program.commands.size());
  for (const Command &command : program.commands) {
    Step step;
    step.command = &command;
    if (command.kernel >= 0)
      step.kernel = reinterpret_cast<KernelFunction>(
          const_cast<void *>(kernels[command.kernel]));
    step.firstItem = items_.size();
    for (const LaunchItem &item : command.items) {
      items_.push_back(
          {args_.size(), immediates_.size(), item.units, step.chunks});
      step.chunks += (item.units + command.grain - 1) / command.grain;
      step.strided |= isStrided(item);
      args_.resize(args_.size() + item.args.size());
      immediates_.resize(immediates_.size() + item.immediates.size());
      if (command.epilogue)
        epilogueImmediates_ =
            std::max(epilogueImmediates_, item.immediates.size() + 2);
    }
    steps_.push_back(step);
    resolve(step, 0);
  }
  // Threads write next to each other: keep them on different cache lines.
  epilogueImmediates_ = (epilogueImmediates_ + 15) / 8 * 8;
  threadImmediates_.resize(epilogueImmediates_ * std::size_t(team.size()));
}

void CommandTable::resolve(const Step &step, int64_t iteration) {
  const std::vector<LaunchItem> &items = step.command->items;
  for (std::size_t i = 0; i < items.size(); ++i) {
    char **args = args_.data() + items_[step.firstItem + i].firstArg;
    int64_t *immediates =
        immediates_.data() + items_[step.firstItem + i].firstImmediate;
    for (const Ref &ref : items[i].args)
      *args++ = at(ref, iteration);
    for (const Immediate &immediate : items[i].immediates)
      *immediates++ = immediate.value + immediate.stride * iteration;
  }
}

void CommandTable::run(CommandObserver *observer, Copier *chosen) {
  SerialCopier serial(SerialCopier::When::Start);
  Copier &copier = chosen ? *chosen : serial;
  copier.begin();
  if (observer)
    observer->begin();
  std::size_t loopBegin = 0;
  int64_t iteration = 0;
  for (std::size_t i = 0; i < steps_.size(); ++i) {
    const Step &step = steps_[i];
    switch (step.command->kind) {
    case Command::Kind::LoopBegin:
      loopBegin = i;
      iteration = 0;
      continue;
    case Command::Kind::LoopEnd:
      if (++iteration < steps_[loopBegin].command->count) {
        i = loopBegin;
        continue;
      }
      iteration = 0;
      break;
    default:
      if (observer)
        observer->before(i, iteration);
      copier.between();
      execute(i, iteration, copier);
      break;
    }
    if (observer)
      observer->after(i, iteration);
  }
}

void CommandTable::startCopy(std::size_t index, int64_t iteration,
                             Copier &copier) {
  const Command &command = *steps_[index].command;
  CopyJob job;
  job.from = at(command.from, iteration);
  job.to = at(command.to, iteration);
  job.bytes = command.size;
  job.direction = copyDirection(command);
  job.token = command.token;
  job.command = index;
  copier.start(job);
}

void CommandTable::execute(std::size_t index, int64_t iteration,
                           Copier &copier) {
  const Step &step = steps_[index];
  if (step.strided)
    resolve(step, iteration);
  switch (step.command->kind) {
  case Command::Kind::Launch:
  case Command::Kind::MultiLaunch:
    return launch(step);
  case Command::Kind::Gemm:
    return gemm(step, iteration);
  case Command::Kind::Fill:
    return fill(step, iteration);
  case Command::Kind::Copy:
    return copy(step, iteration);
  case Command::Kind::CopyStart:
    return startCopy(index, iteration, copier);
  case Command::Kind::CopyWait:
    return copier.wait(step.command->token);
  case Command::Kind::LoopBegin:
  case Command::Kind::LoopEnd:
    return;
  }
}

void CommandTable::launch(const Step &step) {
  const Command &command = *step.command;
  const Item *items = items_.data() + step.firstItem;
  const Item *itemsEnd = items + command.items.size();
  team_.forEachPart(step.chunks, [&](int64_t begin, int64_t end, int thread) {
    char *scratch = arenas_.device + command.scratch.offset +
                    command.scratch.bytesPerThread * thread;
    // The last item that begins at or before the part.
    const Item *item =
        std::upper_bound(items, itemsEnd, begin,
                         [](int64_t chunk, const Item &candidate) {
                           return chunk < candidate.firstChunk;
                         }) -
        1;
    for (; begin < end; ++item) {
      int64_t itemEnd =
          item + 1 == itemsEnd ? end : std::min(end, (item + 1)->firstChunk);
      int64_t first = (begin - item->firstChunk) * command.grain;
      int64_t last =
          std::min(item->units, (itemEnd - item->firstChunk) * command.grain);
      if (first < last)
        step.kernel(args_.data() + item->firstArg,
                    immediates_.data() + item->firstImmediate, first, last,
                    scratch);
      begin = itemEnd;
    }
  });
}

void CommandTable::gemm(const Step &step, int64_t iteration) {
  const Command &command = *step.command;
  GemmPlaces places = {at(command.a.ref, iteration),
                       at(command.b.ref, iteration),
                       at(command.c.ref, iteration)};
  bool accumulate = accumulates(command, iteration);
  char *workspace = arenas_.device + command.workspace.offset;
  int64_t scratchBytes = tileScratchBytes(command);

  auto runTile = [&](int64_t index, int thread) {
    GemmTile tile = gemmTile(command, index);
    if (tile.empty())
      return;
    computeTile(command, tile, places, accumulate,
                workspace + scratchBytes * thread);
    if (!command.epilogue)
      return;
    const Item &item = items_[step.firstItem];
    int64_t *immediates =
        threadImmediates_.data() + epilogueImmediates_ * std::size_t(thread);
    immediates[0] = tile.columnBegin;
    immediates[1] = tile.columnEnd;
    std::copy_n(immediates_.data() + item.firstImmediate,
                command.items.front().immediates.size(), immediates + 2);
    step.kernel(args_.data() + item.firstArg, immediates, tile.rowBegin,
                tile.rowEnd,
                arenas_.device + command.scratch.offset +
                    command.scratch.bytesPerThread * thread);
  };
  team_.forEachPart(gemmTiles(command),
                    [&](int64_t begin, int64_t end, int thread) {
                      for (int64_t tile = begin; tile < end; ++tile)
                        runTile(tile, thread);
                    });
}

void CommandTable::fill(const Step &step, int64_t iteration) {
  char *to = at(step.command->to, iteration);
  int64_t size = step.command->size;
  team_.forEachPart((size + transferChunkBytes - 1) / transferChunkBytes,
                    [=](int64_t begin, int64_t end, int) {
                      begin *= transferChunkBytes;
                      end = std::min(end * transferChunkBytes, size);
                      std::memset(to + begin, 0, std::size_t(end - begin));
                    });
}

void CommandTable::copy(const Step &step, int64_t iteration) {
  const char *from = at(step.command->from, iteration);
  char *to = at(step.command->to, iteration);
  int64_t size = step.command->size;
  team_.forEachPart((size + transferChunkBytes - 1) / transferChunkBytes,
                    [=](int64_t begin, int64_t end, int) {
                      begin *= transferChunkBytes;
                      end = std::min(end * transferChunkBytes, size);
                      std::memcpy(to + begin, from + begin,
                                  std::size_t(end - begin));
                    });
}

} // namespace kiln
