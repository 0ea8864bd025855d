//===- PlaceBuffers.h - Offsets of buffers in the arena ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_CONVERSION_KILNTOKILNRT_PLACEBUFFERS_H
#define KILN_LIB_CONVERSION_KILNTOKILNRT_PLACEBUFFERS_H

#include "kiln/Conversion/KilnToKilnRT/BufferPlan.h"
#include "kiln/Conversion/KilnToKilnRT/Passes.h"
#include "kiln/Planner/Arena.h"
#include "kiln/Target/Interface/TargetBackend.h"

#include "llvm/ADT/EnumeratedArray.h"

namespace kiln {

/// A number of bytes for each memory.
using BytesOfMemory =
    llvm::EnumeratedArray<int64_t, MemorySpace, MemorySpace::Host>;

/// Assigns the offsets in the arena of the states of a module and of the other
/// buffers of its programs. The states have the same offsets in all programs
/// and are at the bottom of the arena.
class BufferPlacer {
public:
  BufferPlacer(mlir::ModuleOp module, const TargetBackend &target,
               const ScheduleOptions &options);

  /// Assigns offsets to all buffers of a program, and may start gathers of
  /// states earlier. Returns the height in bytes of the arena in each memory.
  BytesOfMemory place(ProgramPlan &plan);

  llvm::ArrayRef<StateOp> getStates() const { return states; }
  /// Returns the bytes of the states in each memory.
  const BytesOfMemory &getStateBytes() const { return stateBytes; }

private:
  /// Assigns offsets to the states: those that all ranks have, followed by
  /// those of each owner, which share the same bytes.
  void placeStates();
  /// Returns the request for the offset of a buffer.
  ArenaBuffer requestOf(const ProgramPlan &plan, Buffer &buffer);
  /// Assigns offsets to all buffers of a program in one memory. Returns the
  /// height of the arena in bytes. The search for offsets stops at a height of
  /// at most `capacity` bytes unless it is negative. The buffers with owners
  /// are in a region, in which those of different owners share bytes.
  int64_t assignArena(ProgramPlan &plan, MemorySpace memory, int64_t capacity);
  /// Assigns offsets to all buffers of a program on the device. Returns the
  /// height of the arena in bytes. Starts gathers of states early if the arena
  /// then has at most as many bytes, or at most those of the attribute
  /// kGatherHeightAttr.
  int64_t placeOnDevice(ProgramPlan &plan);

  const TargetBackend &target;
  const ScheduleOptions &options;
  llvm::SmallVector<StateOp> states;
  llvm::SmallVector<int64_t> stateOffsets; ///< Indexed by state.
  BytesOfMemory stateBytes = BytesOfMemory(0);
};

} // namespace kiln

#endif // KILN_LIB_CONVERSION_KILNTOKILNRT_PLACEBUFFERS_H
