//===- SectorCounter.h - Memory traffic of emulated warps -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Counts the 32-byte sectors that warps transfer. An instruction of a warp
// transfers a sector once, even if several lanes access the sector. A segment
// is the execution of a warp between two points at which its lanes wait for
// each other. The emulator runs the lanes of a warp one after another within a
// segment. The k-th accesses of all lanes at one code address are counted as
// one instruction. Therefore a lane that skips an access or leaves a loop early
// changes only the counts at that code address.
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

  /// Records an access of lane `lane`. `place` is the code address of the
  /// access. All accesses of a lane between two waits of the warp must be
  /// recorded before those of the next lane.
  void access(const void *place, int64_t lane, uint64_t address, int64_t bytes,
              bool isWrite);

  /// Adds the sectors of all accesses since the last call to the counts. Must
  /// be called when all lanes of the warp wait or have ended.
  void endSegment();

  const EmuCounts &counts() const { return counts_; }

private:
  /// The 32-byte sectors that one instruction accesses. Bit i of `sectors`
  /// represents the sector with number 64 * window + i. Sectors that no bit
  /// represents are stored in Place::others; few instructions access such
  /// sectors.
  struct Instruction {
    uint64_t window;
    uint64_t sectors;
  };
  struct Place {
    const void *address;
    bool isWrite;
    /// The lane of the last access at `address` since the lanes last waited, or
    /// -1 if there was none.
    int64_t lane = -1;
    /// The index in `instructions` of the next access of `lane`.
    size_t next = 0;
    std::vector<Instruction> instructions;
    /// The sectors that no bit of Instruction::sectors represents, as pairs
    /// (index in `instructions`, sector number).
    std::vector<std::pair<size_t, uint64_t>> others;
  };

  Place &placeAt(const void *address, bool isWrite);
  static void touch(Place &place, uint64_t address, int64_t bytes);

  EmuCounts counts_;
  std::vector<Place> places_;
  /// Indices in places_ of the code addresses with accesses since the lanes
  /// last waited.
  std::vector<size_t> used_;
  /// Indices in places_, hashed by code address.
  std::array<uint32_t, 64> cache_{};
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_SECTORCOUNTER_H
