//===- Fault.h - What a kernel did wrong ------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A fault is found on the stack of an emulated thread, which is small and is
// dropped. So it is plain data there, and the scheduler makes the message.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_EMU_FAULT_H
#define KILN_LIB_RUNTIME_EMU_FAULT_H

#include "MemoryShadow.h"
#include "kiln/Runtime/Emu/EmuDevice.h"

namespace kiln::runtime::emu {

/// What the address of an access must be a multiple of: a GPU moves a power of
/// two of bytes, 16 at most, with one instruction of a lane.
inline int64_t accessAlignment(int64_t bytes) {
  return bytes & (bytes - 1) ? 1 : bytes < 16 ? bytes : 16;
}

/// Of one thread, to global or shared memory.
struct Access {
  const char *address = nullptr;
  int64_t bytes = 0; ///< At least 1.
  bool isWrite = false;
  bool isShared = false;
};

struct Fault {
  enum class Kind {
    None,
    Misaligned,
    OutOfBounds,
    ReadOnly,
    Uninitialised,
    Race,
    StackOverflow,
    TooManyBarriers,
    PartialBarrier,
    PartialWarp,
    MixedWarp,
    InFlight,
  };

  Kind kind = Kind::None;
  int64_t block = 0, thread = 0;

  /// Of faults of an access: its first byte that is wrong, and the access that
  /// it races with, or who began a copy to there.
  Access access;
  const char *firstByte = nullptr;
  Accessor other;
  bool otherWrote = false;

  /// Of barriers and operations of a warp that some reach: how many threads are
  /// there, of how many, and one that is not, with what it does instead.
  int64_t present = 0, expected = 0, absent = 0;
  bool absentEnded = false;
  const char *operation = "", *otherOperation = ""; ///< Of the warp.
};

/// Of an emulated launch: the launches that it is, at least 1, and the blocks
/// of each of them.
inline int64_t memberCount(const EmuLaunch &launch) {
  return launch.members.empty() ? 1 : int64_t(launch.members.size());
}
inline int64_t blocksOf(const EmuLaunch &launch) {
  return launch.units > 0 ? (launch.units - 1) / launch.unitsPerBlock + 1 : 0;
}

/// The one line that says what happened. `sharedBase`: where the block's shared
/// memory lies.
Status faultStatus(const Fault &fault, const EmuLaunch &launch,
                   const char *sharedBase);

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_FAULT_H
