//===- Fault.h - Fault of an emulated kernel --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A fault is detected on the small stack of an emulated thread. The stack is
// then abandoned without running destructors. Therefore a Fault is plain data,
// and the scheduler formats the message.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_EMU_FAULT_H
#define KILN_LIB_RUNTIME_EMU_FAULT_H

#include "MemoryShadow.h"
#include "kiln/Runtime/Emu/EmuDevice.h"

namespace kiln::runtime::emu {

/// Returns the required alignment of an access in bytes. One instruction of a
/// lane accesses 1, 2, 4, 8 or 16 bytes. An access of 2^n > 16 bytes is a
/// sequence of 16-byte instructions. An access whose size is not a power of two
/// needs no alignment.
inline int64_t accessAlignment(int64_t bytes) {
  return bytes & (bytes - 1) ? 1 : bytes < 16 ? bytes : 16;
}

/// An access of one thread to global or shared memory.
struct Access {
  const char *address = nullptr;
  int64_t bytes = 0; ///< The number of accessed bytes, at least 1.
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

  /// For faults of an access: the access and its first faulty byte. If the
  /// access races with an earlier access, `other` made the earlier access. If
  /// the access touches the destination of a copy in flight, `other` started
  /// the copy.
  Access access;
  const char *firstByte = nullptr;
  Accessor other;
  bool otherWrote = false;

  /// For faults at a barrier or a warp-wide operation that some threads do not
  /// reach: the number of threads that reach it, the number of threads that
  /// should reach it, and one thread that does not.
  int64_t present = 0, expected = 0, absent = 0;
  bool absentEnded = false;
  const char *operation = "", *otherOperation = ""; ///< Warp-wide operations.
};

/// Returns the number of launches in a launch group, or 1 for a single launch.
inline int64_t memberCount(const EmuLaunch &launch) {
  return launch.members.empty() ? 1 : int64_t(launch.members.size());
}
/// Returns the number of blocks of each launch of the group.
inline int64_t blocksOf(const EmuLaunch &launch) {
  return launch.units > 0 ? (launch.units - 1) / launch.unitsPerBlock + 1 : 0;
}

/// Returns an error with a message of one line. `sharedBase` is the address of
/// the block's shared memory.
Status faultStatus(const Fault &fault, const EmuLaunch &launch,
                   const char *sharedBase);

} // namespace kiln::runtime::emu

#endif // KILN_LIB_RUNTIME_EMU_FAULT_H
