//===- PlaceBuffers.cpp - Offsets of buffers in the arena -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "PlaceBuffers.h"

#include "AdvanceGathers.h"

#include "llvm/ADT/SetVector.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln;

BufferPlacer::BufferPlacer(ModuleOp module, const TargetBackend &target)
    : target(target), states(module.getOps<StateOp>()) {
  placeStates();
}

void BufferPlacer::placeStates() {
  SmallVector<rt::SlotClass> classes = slotClassesOf(states);
  stateOffsets.resize(states.size());
  auto place = [&](int64_t owner, BytesOfMemory bytes) {
    for (auto [i, state] : llvm::enumerate(states)) {
      if (ownerOf(state) != owner)
        continue;
      int64_t &end = bytes[memoryOf(state.getType())];
      int64_t alignment = target.getAlignment(classes[i]);
      stateOffsets[i] = llvm::alignTo(end, alignment);
      end =
          llvm::alignTo(stateOffsets[i] + bytesOf(state.getType()), alignment);
    }
    return bytes;
  };
  BytesOfMemory common = place(kNoOwner, BytesOfMemory(0));
  stateBytes = common;
  llvm::SmallSetVector<int64_t, 8> owners;
  for (StateOp state : states)
    owners.insert(ownerOf(state));
  owners.remove(kNoOwner);
  for (int64_t owner : owners) {
    BytesOfMemory bytes = place(owner, common);
    for (MemorySpace memory : {MemorySpace::Device, MemorySpace::Host})
      stateBytes[memory] = std::max(stateBytes[memory], bytes[memory]);
  }
  // Align the end of the states to the alignment of every slot class, because
  // the offsets of all other slots are relative to that end.
  for (unsigned i = 0; i <= rt::getMaxEnumValForSlotClass(); ++i)
    if (auto slotClass = rt::symbolizeSlotClass(i))
      for (int64_t &bytes : stateBytes)
        bytes = llvm::alignTo(bytes, target.getAlignment(*slotClass));
}

ArenaBuffer BufferPlacer::requestOf(const ProgramPlan &plan, Buffer &buffer) {
  // A buffer that no command accesses still gets an offset.
  if (buffer.last < 0)
    buffer.first = buffer.last = 0;
  auto [first, last] = plan.occupancyOf(buffer);
  ArenaBuffer request;
  request.size = buffer.getTotalBytes();
  request.alignment = target.getAlignment(buffer.slotClass);
  request.lower = static_cast<int32_t>(first);
  request.upper = static_cast<int32_t>(last) + 1;
  return request;
}

/// Returns the limits of the search for offsets in a program.
static ArenaOptions searchOf(ProgramOp program) {
  ArenaOptions search;
  if (auto limits =
          program->getAttrOfType<DenseI64ArrayAttr>(kArenaSearchAttr)) {
    search.capacity = limits[0];
    search.effort = static_cast<uint64_t>(limits[1]);
  }
  return search;
}

int64_t BufferPlacer::assignArena(ProgramPlan &plan, MemorySpace memory,
                                  ArenaOptions search) {
  std::vector<ArenaBuffer> requests;
  std::vector<Buffer *> buffers;
  llvm::MapVector<int64_t, std::vector<Buffer *>> owned;
  for (auto [i, buffer] : llvm::enumerate(plan.buffers)) {
    if (buffer.memory != memory)
      continue;
    if (i < states.size()) {
      buffer.offset = stateOffsets[i];
    } else if (buffer.owner != kNoOwner) {
      owned[buffer.owner].push_back(&buffer);
    } else {
      requests.push_back(requestOf(plan, buffer));
      buffers.push_back(&buffer);
    }
  }
  ArenaOptions least = search;
  least.capacity = -1;
  ArenaBuffer region;
  region.lower = INT32_MAX;
  for (auto &[owner, ownBuffers] : owned) {
    std::vector<ArenaBuffer> own;
    for (Buffer *buffer : ownBuffers) {
      own.push_back(requestOf(plan, *buffer));
      region.lower = std::min(region.lower, own.back().lower);
      region.upper = std::max(region.upper, own.back().upper);
      region.alignment = std::max(region.alignment, own.back().alignment);
    }
    ArenaPlan placed = assignOffsets(own, least);
    for (auto [buffer, offset] : llvm::zip_equal(ownBuffers, placed.offsets))
      buffer->offset = offset;
    region.size = std::max(region.size, placed.height);
  }
  if (!owned.empty())
    requests.push_back(region);
  if (search.capacity >= 0)
    search.capacity =
        std::max<int64_t>(search.capacity - stateBytes[memory], 0);
  ArenaPlan arena = assignOffsets(requests, search);
  for (auto [i, buffer] : llvm::enumerate(buffers))
    buffer->offset = stateBytes[memory] + arena.offsets[i];
  for (auto &[owner, ownBuffers] : owned)
    for (Buffer *buffer : ownBuffers)
      buffer->offset += stateBytes[memory] + arena.offsets.back();
  return stateBytes[memory] + arena.height;
}

int64_t BufferPlacer::placeOnDevice(ProgramPlan &plan) {
  ArenaOptions search = searchOf(plan.program);
  int64_t height = assignArena(plan, MemorySpace::Device, search);
  if (!hasGathers(plan))
    return height;
  // advanceGathers() limits the live bytes, but the arena may be higher than
  // the peak of the live bytes. Try several limits, until the arena is low
  // enough.
  SmallVector<int64_t> limits;
  int64_t allowed = height, peak = peakBytesOf(plan, target);
  if (auto bytes = plan.program->getAttrOfType<IntegerAttr>(kGatherHeightAttr);
      bytes && bytes.getInt() > height) {
    allowed = bytes.getInt();
    int64_t most = allowed - stateBytes[MemorySpace::Device];
    for (int64_t limit : {most, most - most / 32, most - most / 16})
      if (limit > peak)
        limits.push_back(limit);
  }
  for (int64_t part = 0; part < 4; ++part)
    limits.push_back(peak - peak / 32 * part);
  for (int64_t limit : limits) {
    ProgramPlan early = plan;
    if (!advanceGathers(early, target, limit))
      continue;
    // The search stops when the arena fits the capacity. Lower the capacity to
    // `allowed`, because a higher arena would be rejected below.
    ArenaOptions lower = search;
    lower.capacity = std::min(search.capacity, allowed);
    int64_t earlyHeight = assignArena(early, MemorySpace::Device, lower);
    if (earlyHeight > allowed)
      continue;
    plan = std::move(early);
    return earlyHeight;
  }
  return height;
}

BytesOfMemory BufferPlacer::place(ProgramPlan &plan) {
  BytesOfMemory heights;
  heights[MemorySpace::Device] = placeOnDevice(plan);
  ArenaOptions search = searchOf(plan.program);
  search.capacity = -1;
  heights[MemorySpace::Host] = assignArena(plan, MemorySpace::Host, search);
  return heights;
}
