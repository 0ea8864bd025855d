//===- SectorCounter.cpp - Memory traffic of emulated warps ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "SectorCounter.h"

#include <algorithm>

using namespace kiln::runtime::emu;
using namespace kiln::runtime;
using namespace kiln;

/// The maximum number of bytes that one lane accesses with one instruction.
static constexpr int64_t laneBytes = 16;

void SectorCounter::clear() {
  counts_ = EmuCounts();
  places_.clear();
  used_.clear();
}

SectorCounter::Place &SectorCounter::placeAt(const void *address,
                                             bool isWrite) {
  uint32_t &cached = cache_[(uintptr_t(address) >> 1) % cache_.size()];
  auto matches = [&](const Place &place) {
    return place.address == address && place.isWrite == isWrite;
  };
  if (cached < places_.size() && matches(places_[cached]))
    return places_[cached];
  auto found = std::find_if(places_.begin(), places_.end(), matches);
  cached = uint32_t(found - places_.begin());
  if (found != places_.end())
    return *found;
  Place &place = places_.emplace_back();
  place.address = address;
  place.isWrite = isWrite;
  return place;
}

void SectorCounter::access(const void *address, int64_t lane, uint64_t begin,
                           int64_t bytes, bool isWrite) {
  Place &place = placeAt(address, isWrite);
  if (place.lane < 0)
    used_.push_back(size_t(&place - places_.data()));
  if (place.lane != lane) {
    place.lane = lane;
    place.next = 0;
  }
  for (int64_t i = 0; i < bytes; i += laneBytes)
    touch(place, begin + i, std::min(laneBytes, bytes - i));
}

void SectorCounter::touch(Place &place, uint64_t address, int64_t bytes) {
  uint64_t first = address / EmuDevice::sectorBytes;
  uint64_t last = (address + bytes - 1) / EmuDevice::sectorBytes;
  size_t index = place.next++;
  if (index == place.instructions.size())
    place.instructions.push_back({first / 64, 0});
  Instruction &instruction = place.instructions[index];
  for (uint64_t sector = first; sector <= last; ++sector) {
    if (sector / 64 == instruction.window)
      instruction.sectors |= uint64_t{1} << sector % 64;
    else
      place.others.push_back({index, sector});
  }
}

void SectorCounter::endSegment() {
  for (size_t index : used_) {
    Place &place = places_[index];
    int64_t sectors = 0;
    for (const Instruction &instruction : place.instructions)
      sectors += __builtin_popcountll(instruction.sectors);
    std::sort(place.others.begin(), place.others.end());
    auto end = std::unique(place.others.begin(), place.others.end());
    sectors += end - place.others.begin();
    (place.isWrite ? counts_.writeSectors : counts_.readSectors) += sectors;
    place.instructions.clear();
    place.others.clear();
    place.lane = -1;
  }
  used_.clear();
}
