//===- SectorCounter.h - Sectors that a warp's accesses touch ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GPU moves the bytes of one instruction of a warp in sectors of 32 bytes,
// each once. The emulated lanes of a warp run one after the other from one
// point where they wait for each other to the next. In between, the k-th pass
// of each lane through the same place in the code is taken to be the same
// instruction. Lanes that skip a place, or leave a loop early, so disturb no
// other instruction.
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
  /// Forgets all.
  void clear();

  /// The lanes of one warp in turn, any number of accesses each. `place`:
  /// where in the code.
  void access(const void *place, int64_t lane, uint64_t address, int64_t bytes,
              bool isWrite);

  /// The lanes of the warp have come to where they wait for each other.
  void endSegment();

  const EmuCounts &counts() const { return counts_; }

private:
  /// The sectors of one instruction: 64 of them as bits, by far the most
  /// common case; others go to Place::others.
  struct Instruction {
    uint64_t window; ///< Sector / 64.
    uint64_t sectors;
  };
  struct Place {
    const void *address;
    bool isWrite;
    int64_t lane = -1; ///< The last one.
    size_t next = 0;   ///< Of the instructions, for that lane.
    std::vector<Instruction> instructions;
    std::vector<std::pair<size_t, uint64_t>> others; ///< With instruction.
  };

  Place &placeAt(const void *address, bool isWrite);
  static void touch(Place &place, uint64_t address, int64_t bytes);

  EmuCounts counts_;
  std::vector<Place> places_;
  std::vector<size_t> used_;         ///< Places of this segment.
  std::array<uint32_t, 64> cache_{}; ///< Of places, by address.
};

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_SECTORCOUNTER_H
