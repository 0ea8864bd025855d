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

/// Assigns offsets in the arena to the states of a module and to the other
/// buffers of its programs. The states have the same offsets in all programs
/// and are at the bottom of the arena.
class BufferPlacer {
public:
  BufferPlacer(mlir::ModuleOp module, const TargetBackend &target);

  /// Assigns offsets to all buffers of a program. Also starts all-gathers of
  /// states earlier in the program if the device has memory for this, see
  /// placeOnDevice(). Returns the height in bytes of the arena in each memory.
  BytesOfMemory place(ProgramPlan &plan);

  llvm::ArrayRef<StateOp> getStates() const { return states; }
  /// Returns the bytes of the states in each memory.
  const BytesOfMemory &getStateBytes() const { return stateBytes; }

private:
  /// Assigns offsets to the states. States that every rank stores have the
  /// lowest offsets. Above them are the states that only one rank, their owner,
  /// stores; states of different owners share bytes.
  void placeStates();
  /// Returns the size and the lifetime of a buffer for the search for offsets.
  ArenaBuffer requestOf(const ProgramPlan &plan, Buffer &buffer);
  /// Assigns offsets to all buffers of a program in one memory. Returns the
  /// height of the arena in bytes. The capacity of `search` includes the states
  /// of the module. A buffer may exist on one rank only, its owner. All such
  /// buffers are in one region, in which buffers of different owners share
  /// bytes.
  int64_t assignArena(ProgramPlan &plan, MemorySpace memory,
                      ArenaOptions search);
  /// Assigns offsets to all buffers of a program on the device. Returns the
  /// height of the arena in bytes. Starts gathers of states earlier if the
  /// arena then does not exceed its previous height, or the height that the
  /// attribute kGatherHeightAttr allows.
  int64_t placeOnDevice(ProgramPlan &plan);

  const TargetBackend &target;
  llvm::SmallVector<StateOp> states;
  llvm::SmallVector<int64_t> stateOffsets; ///< Indexed by state.
  BytesOfMemory stateBytes = BytesOfMemory(0);
};

} // namespace kiln

#endif // KILN_LIB_CONVERSION_KILNTOKILNRT_PLACEBUFFERS_H
