//===- Mirrors.cpp - Copies of parameters ---------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A mirror is a copy of a parameter. If both are divided over the same mesh
// axes, each rank fills its part of the mirror from its part of the parameter.
// If the parameter is divided over one more axis than the mirror, the mirror
// needs the elements of all ranks of that axis. These ranks exchange their
// parts in chunks. All ranks exchange the same chunks in the same order. A rank
// that cannot access a state takes part with zeros, so that no rank waits for
// it.
//
//===----------------------------------------------------------------------===//

#include "kiln/Runtime/Comm/World.h"
#include "kiln/Runtime/Engine/Engine.h"
#include "kiln/Support/ElementConversion.h"

#include <algorithm>

using namespace kiln::support;

namespace kiln::runtime {

/// Approximate number of bytes that each rank contributes to a chunk.
static constexpr int64_t chunkBytes = 1 << 20;

/// Fills a mirror, which is a copy of a parameter, from the parts of the
/// parameter on all ranks of a group. `part` is the part of this rank, and
/// `whole` is the mirror. If both are null, this rank takes part in the
/// exchange with zeros and fills nothing.
static Status gatherMirror(World &world, const support::MeshGroup &group,
                           const StateInfo &parameter, const StateInfo &mirror,
                           const char *part, char *whole) {
  const ElementType type = parameter.type;
  int64_t perChunk = std::max<int64_t>(chunkBytes / bytesOf(type), 1);
  perChunk = std::min(perChunk, parameter.elements());
  std::vector<char> all(size_t(bytesOf(type, perChunk) * group.size));
  std::vector<char> mine(size_t(bytesOf(type, perChunk)));
  for (int64_t first = 0; first < parameter.elements(); first += perChunk) {
    int64_t count = std::min(perChunk, parameter.elements() - first);
    if (part)
      std::copy_n(part + bytesOf(type, first), bytesOf(type, count),
                  mine.data());
    CollectiveSpan span = {all.data(), count * group.size, mine.data(), count};
    setEnds(Collective::AllGather, &span, 1);
    CollectiveJob job;
    job.collective = Collective::AllGather;
    job.spans = &span;
    job.spanCount = 1;
    job.type = type;
    job.name = "parameters";
    job.group = group;
    world.wait(world.begin(job));
    if (Status status = world.failure(); !status.ok())
      return status;
    for (int64_t index = 0; whole && index < group.size; ++index) {
      int64_t begin =
          parameter.divisions.back().beginOf(index, mirror.elements()) + first;
      int64_t held = std::min(count, mirror.elements() - begin);
      if (held > 0)
        convertElements(type, all.data() + bytesOf(type, index * count),
                        mirror.type, whole + bytesOf(mirror.type, begin),
                        size_t(held));
    }
  }
  return Status();
}

/// Fills a mirror (a copy) of a parameter that is divided over ranks, if only
/// one of the ranks runs, as in a check. This rank has only its own part of the
/// parameter. Copies this part, and fills the rest of the mirror with zeros.
static void fillAlone(const StateInfo &parameter, const StateInfo &mirror,
                      const char *part, char *whole) {
  std::fill_n(whole, mirror.bytes(), 0);
  if (!parameter.isHere)
    return;
  convertElements(parameter.type, part, mirror.type, whole,
                  size_t(std::min(parameter.elements(), mirror.elements())));
}

static Status copyMirror(Engine &engine, World *world, size_t parameterIndex,
                         size_t mirrorIndex) {
  const std::vector<StateInfo> &states = engine.description().states;
  const StateInfo &parameter = states[parameterIndex];
  const StateInfo &mirror = states[mirrorIndex];
  // If only one data-parallel rank, the owner, stores the mirror (the copy of
  // the parameter), that rank also owns the parameter. All other ranks copy
  // nothing.
  if (!mirror.isHere)
    return Status();
  bool isDivided = parameter.divisions.size() > mirror.divisions.size();
  bool gathers = isDivided && world && world->size() > 1;
  bool hasGathered = false;
  support::MeshGroup group;
  if (gathers)
    group = engine.description().mesh.groupOf(parameter.divisions.back().axis,
                                              world->rank());
  auto copy = [&](const char *from, char *to) {
    if (gathers) {
      hasGathered = true;
      return gatherMirror(*world, group, parameter, mirror, from, to);
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
  Status exchanged =
      gatherMirror(*world, group, parameter, mirror, nullptr, nullptr);
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
    // Continue after an error, because the other ranks wait for this rank in
    // the remaining exchanges.
    Status status =
        copyMirror(engine, world, size_t(parameter - states.begin()), i);
    if (result.ok())
      result = std::move(status);
  }
  return result;
}

} // namespace kiln::runtime
