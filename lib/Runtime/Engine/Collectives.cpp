//===- Collectives.cpp - Collectives of the commands of programs ----------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "Collectives.h"

#include <algorithm>

using namespace kiln::runtime;
using namespace kiln::support;
using namespace kiln;

void kiln::runtime::selectCommands(ProgramFile &file, int64_t rank) {
  int64_t index = file.description.mesh.indexOn(dataAxis, rank);
  auto isHere = [&](int64_t owner) { return owner < 0 || owner == index; };
  for (StateInfo &state : file.description.states)
    state.isHere = isHere(state.owner());
  for (Program &program : file.programs) {
    program.slots.erase(
        std::remove_if(program.slots.begin(), program.slots.end(),
                       [&](const Slot &slot) { return !isHere(slot.owner); }),
        program.slots.end());
    for (Command &command : program.commands) {
      command.isHere = isHere(command.owner);
      for (CollectiveTensor &tensor : command.tensors)
        tensor.hasShard = isHere(tensor.owner);
    }
  }
}

Status kiln::runtime::joinWorld(ProgramFile &file, World &world) {
  const Description &description = file.description;
  int64_t ranks = description.ranks();
  if (world.size() != ranks)
    return Status::error("the executable has " + std::to_string(ranks) +
                         " ranks, but " + std::to_string(world.size()) +
                         " were started");
  if (double rate = description.networkBytesPerSecond; rate > 0)
    world.simulateNetwork(rate);
  selectCommands(file, world.rank());
  return Status();
}

/// Returns the argument `bytes` of World::reserve() for a collective over
/// `ranks` ranks. Only collectives that sum need scratch memory.
static int64_t scratchedBytes(const Command &command, int64_t ranks) {
  if (command.collective == Collective::AllGather)
    return 0;
  if (command.collective == Collective::AllReduce)
    return command.size;
  int64_t bytes = 0;
  for (const CollectiveTensor &tensor : command.tensors)
    bytes += tensor.shard.bytes * ranks;
  return bytes;
}

void kiln::runtime::reserveCollectives(const ProgramFile &file, World &world) {
  const std::vector<MeshAxis> &axes = file.description.mesh.axes;
  std::vector<int64_t> sumBytes(axes.size());
  int64_t tokens = 0;
  for (const Program &program : file.programs) {
    tokens = std::max(tokens, program.tokens);
    for (const Command &command : program.commands) {
      if (command.kind != Command::Kind::Collective)
        continue;
      auto axis = std::size_t(command.axis);
      sumBytes[axis] =
          std::max(sumBytes[axis], scratchedBytes(command, axes[axis].size));
    }
  }
  for (std::size_t axis = 0; axis < axes.size(); ++axis)
    world.reserve(tokens, sumBytes[axis], axes[axis].size);
}

int64_t kiln::runtime::sentBytes(const World *world) {
  if (!world)
    return 0;
  Traffic sent = world->sent();
  return sent.of(TrafficKind::Sum) + sent.of(TrafficKind::Gather);
}

CopiedShard kiln::runtime::copiedShard(const Command &command, int64_t index) {
  int64_t begin = std::min(command.size * index, command.wholeBytes);
  return {begin, std::min(command.size, command.wholeBytes - begin)};
}
