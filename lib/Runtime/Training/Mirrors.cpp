//===- Mirrors.cpp - Copies of parameters ---------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mirror that is divided as its parameter is filled locally. A whole mirror
// of a sharded parameter needs the elements of all ranks, which exchange their
// shards in chunks. All ranks exchange the same chunks in the same order. A
// rank that cannot access a state takes part with zeros, so that no rank waits
// for it.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Comm/World.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/ElementConversion.h"

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

/// Approximate number of bytes of each rank in a chunk.
static constexpr int64_t chunkBytes = 1 << 20;

/// Fills a whole mirror from the shards of all ranks. `shard` is the shard of
/// this rank, and `whole` the mirror. If they are null, takes part in the
/// exchange without effect on this rank.
static Status gatherMirror(World &world, const StateInfo &parameter,
                           const StateInfo &mirror, const char *shard,
                           char *whole) {
  int64_t perChunk = std::max<int64_t>(chunkBytes / bytesOf(parameter.type), 1);
  perChunk = std::min(perChunk, parameter.elements());
  std::vector<char> zeros, all;
  all.resize(size_t(bytesOf(parameter.type, perChunk) * world.size()));
  if (!shard)
    zeros.resize(size_t(bytesOf(parameter.type, perChunk)));
  for (int64_t first = 0; first < parameter.elements(); first += perChunk) {
    int64_t count = std::min(perChunk, parameter.elements() - first);
    int64_t bytes = bytesOf(parameter.type, count);
    const char *mine =
        shard ? shard + bytesOf(parameter.type, first) : zeros.data();
    Status status =
        world.gather("the exchange of parameters", mine, bytes, all.data());
    if (!status.ok())
      return status;
    for (int rank = 0; whole && rank < world.size(); ++rank) {
      ElementRange range = parameter.rangeOf(rank);
      int64_t held = std::clamp<int64_t>(range.size() - first, 0, count);
      if (held > 0)
        convertElements(parameter.type, all.data() + rank * bytes, mirror.type,
                        whole + bytesOf(mirror.type, range.begin + first),
                        size_t(held));
    }
  }
  return Status();
}

/// Fills the part of a whole mirror that this rank holds of a sharded
/// parameter, and the rest with zeros.
static void fillAlone(const StateInfo &parameter, const StateInfo &mirror,
                      const char *shard, char *whole) {
  std::fill_n(whole, mirror.bytes(), 0);
  convertElements(parameter.type, shard, mirror.type, whole,
                  size_t(parameter.rangeOf(0).size()));
}

static Status copyMirror(Engine &engine, World *world, size_t parameterIndex,
                         size_t mirrorIndex) {
  const std::vector<StateInfo> &states = engine.description().states;
  const StateInfo &parameter = states[parameterIndex];
  const StateInfo &mirror = states[mirrorIndex];
  bool isDivided = parameter.isSharded() && !mirror.isSharded();
  bool gathers = isDivided && world && world->size() > 1;
  bool hasGathered = false;
  auto copy = [&](const char *from, char *to) {
    if (gathers) {
      hasGathered = true;
      return gatherMirror(*world, parameter, mirror, from, to);
    }
    if (isDivided)
      fillAlone(parameter, mirror, from, to);
    else
      convertElements(parameter.type, from, mirror.type, to,
                      size_t(mirror.elements()));
    return Status();
  };
  Status status = engine.accessState(
      parameterIndex, HostAccess::Read, [&](const char *from) {
        return engine.accessState(mirrorIndex, HostAccess::Write,
                                  [&](char *to) { return copy(from, to); });
      });
  if (!gathers || hasGathered)
    return status;
  Status exchanged = gatherMirror(*world, parameter, mirror, nullptr, nullptr);
  return status.ok() ? exchanged : status;
}

Status copyMirrors(Engine &engine, World *world) {
  const std::vector<StateInfo> &states = engine.description().states;
  Status result;
  for (size_t i = 0; i < states.size(); ++i) {
    if (states[i].role != StateRole::Mirror)
      continue;
    auto parameter =
        std::find_if(states.begin(), states.end(), [&](const StateInfo &state) {
          return state.name == states[i].of;
        });
    if (parameter == states.end())
      continue;
    // The exchanges continue after an error, because other ranks take part.
    Status status =
        copyMirror(engine, world, size_t(parameter - states.begin()), i);
    if (result.ok())
      result = std::move(status);
  }
  return result;
}

} // namespace kiln::runtime
