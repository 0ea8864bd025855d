//===- ArenaVerify.cpp - Independent check of an arena plan -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Sweeps over the schedule and keeps the byte ranges in use in a map sorted by
// offset. The ranges in the map are disjoint, so a new range only has to be
// compared with its two neighbours: O(n log n) in total. At the same position,
// deaths come before births, because lifetimes are half-open.
//
//===----------------------------------------------------------------------===//

#include "kiln/Planner/Arena.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <tuple>

using namespace kiln;

namespace {
struct Event {
  int32_t position;
  bool birth;
  size_t buffer;
  bool operator<(const Event &other) const {
    return std::tie(position, birth, buffer) <
           std::tie(other.position, other.birth, other.buffer);
  }
};
} // namespace

static std::string describe(llvm::ArrayRef<ArenaBuffer> buffers,
                            const ArenaPlan &plan, size_t index) {
  const ArenaBuffer &buffer = buffers[index];
  return "buffer " + std::to_string(index) + " (bytes " +
         std::to_string(plan.offsets[index]) + ".." +
         std::to_string(plan.offsets[index] + buffer.paddedSize()) +
         ", lifetime [" + std::to_string(buffer.lower) + ", " +
         std::to_string(buffer.upper) + "))";
}

std::optional<std::string>
kiln::verifyArena(llvm::ArrayRef<ArenaBuffer> buffers, const ArenaPlan &plan) {
  if (plan.offsets.size() != buffers.size())
    return "the plan has " + std::to_string(plan.offsets.size()) +
           " offsets, expected " + std::to_string(buffers.size());

  std::vector<Event> events;
  for (size_t i = 0, e = buffers.size(); i != e; ++i) {
    int64_t offset = plan.offsets[i];
    if (offset < 0 || offset % buffers[i].alignment != 0)
      return describe(buffers, plan, i) + " is not at a multiple of " +
             std::to_string(buffers[i].alignment);
    if (buffers[i].isEmpty())
      continue;
    if (buffers[i].paddedSize() > plan.height - offset)
      return describe(buffers, plan, i) + " ends above the arena's height, " +
             std::to_string(plan.height);
    events.push_back({buffers[i].lower, true, i});
    events.push_back({buffers[i].upper, false, i});
  }
  std::sort(events.begin(), events.end());

  std::map<int64_t, size_t> inUse;
  int64_t live = 0, maxLive = 0;
  for (const Event &event : events) {
    int64_t offset = plan.offsets[event.buffer];
    int64_t size = buffers[event.buffer].paddedSize();
    if (!event.birth) {
      inUse.erase(offset);
      live -= size;
      continue;
    }
    auto above = inUse.lower_bound(offset);
    size_t other = event.buffer;
    if (above != inUse.end() && above->first < offset + size)
      other = above->second;
    if (above != inUse.begin()) {
      auto below = std::prev(above);
      if (below->first + buffers[below->second].paddedSize() > offset)
        other = below->second;
    }
    if (other != event.buffer)
      return describe(buffers, plan, event.buffer) + " overlaps " +
             describe(buffers, plan, other);
    inUse.emplace(offset, event.buffer);
    live += size;
    maxLive = std::max(maxLive, live);
  }
  if (maxLive != plan.maxLive)
    return "the plan reports a peak of " + std::to_string(plan.maxLive) +
           " live bytes, expected " + std::to_string(maxLive);
  return std::nullopt;
}
