//===- SectorCounter.h - Memory traffic of emulated warps -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts the sectors of 32 bytes that warps transfer. An instruction of a warp
// transfers each sector once. A segment is the execution of a warp between two
// points at which its lanes wait for each other. Within a segment, the emulated
// lanes run one after another, and the k-th access of each lane at the same
// code address is treated as the same instruction. A lane that skips an access
// or leaves a loop early therefore does not affect the instructions at other
// code addresses.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_EMU_SECTORCOUNTER_H
#define KILN_LIB_RUNTIME_EMU_SECTORCOUNTER_H

#include "kiln/Runtime/Emu/EmuDevice.h"

#include <array>
#include <cstdint>
#include <utility>
#include <vector>

namespace kiln::runtime::emu {

class SectorCounter {
public:
  /// Resets the counts.
  void clear();

  /// Records an access of a lane. `place` is the code address of the access.
  /// The lanes of a warp make their accesses one lane after another.
  void access(const void *place, int64_t lane, uint64_t address, int64_t bytes,
              bool isWrite);

  /// Ends a segment: all lanes of the warp wait or have ended.
  void endSegment();

  const EmuCounts &counts() const { return counts_; }

private:
  /// The sectors of one instruction. A bit mask represents the sectors in one
  /// window of 64 sectors, which nearly always contains all of them. Sectors
  /// outside the window are stored in Place::others.
  struct Instruction {
    uint64_t window; ///< Sector number / 64.
    uint64_t sectors;
  };
  struct Place {
    const void *address;
    bool isWrite;
    int64_t lane = -1; ///< The lane of the last access.
    size_t next = 0;   ///< The index of that lane's next instruction.
    std::vector<Instruction> instructions;
    /// Pairs of instruction and sector.
    std::vector<std::pair<size_t, uint64_t>> others;
  };

  Place &placeAt(const void *address, bool isWrite);
  static void touch(Place &place, uint64_t address, int64_t bytes);

  EmuCounts counts_;
  std::vector<Place> places_;
  std::vector<size_t> used_;         ///< Indices of the segment's places.
  std::array<uint32_t, 64> cache_{}; ///< Indices of places, hashed by address.
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_SECTORCOUNTER_H
