//===- EmuDevice.h - Emulated GPU with race and memory checks ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs emulated kernels (kiln/Abi/EmulatedKernel.h) with blocks, warps of 32
// lanes, barriers, shuffles and shared memory, one GPU thread at a time, and
// reports errors that a real GPU may not detect:
//   - races in shared memory, and in global memory between threads of one
//     launch: two threads access the same byte, at least one of them writes,
//     and no barrier orders the accesses (no barrier orders different blocks);
//   - accesses outside of both the launch's arguments and shared memory, writes
//     to read-only arguments, and misaligned accesses;
//   - reads of bytes that were not written since the device memory was declared
//     or invalidated. When a block begins, its shared memory is uninitialised
//     and is filled with NaNs;
//   - barriers that not all threads of a block reach, and shuffles that not all
//     lanes of a warp reach.
// All checks have byte granularity. A barrier orders accesses; a shuffle does
// not.
//
// The seed of the device determines the order of the blocks and the choice of
// the warp that runs next. A warp runs until all of its lanes wait or have
// ended. A run is a deterministic function of the seed and of the sequence of
// calls.
//
// A device may be used by one OS thread at a time.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_EMU_EMUDEVICE_H
#define KILN_RUNTIME_EMU_EMUDEVICE_H

#include "kiln/Abi/EmulatedKernel.h"
#include "kiln/Support/Status.h"

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace kiln::runtime {

/// One pointer argument of a kernel. The kernel receives `begin` and may access
/// [begin, end). Arguments may overlap; an access is valid if any argument
/// permits it.
struct EmuArgument {
  char *begin = nullptr;
  char *end = nullptr;
  bool isWritten = false;
  std::string_view name; ///< Name of the argument in messages; may be empty.
};

struct EmuLaunch {
  EmuKernel kernel = nullptr;
  std::string_view name; ///< Name of the launch, for messages.
  /// The arguments of the kernel. For a grouped launch, the arguments of all
  /// launches in the group, one launch after the other; see `members`.
  std::vector<EmuArgument> arguments;
  std::vector<int64_t> immediates;
  /// The names of the launches (members) that run as one grouped launch; empty
  /// for a single launch. All members have the same number of arguments. Each
  /// member has its own blocks and may access only its own arguments.
  std::vector<std::string_view> members;
  /// Number of work units, such as rows, of each member. A member runs
  /// ceil(units / unitsPerBlock) blocks.
  int64_t units = 0;
  int64_t unitsPerBlock = 1;
  int64_t threads = 1;     ///< Threads per block.
  int64_t sharedBytes = 0; ///< Shared memory per block.
};

/// The memory traffic of a launch in sectors of 32 bytes. If several lanes of a
/// warp access a sector by the same instruction, the sector counts once. An
/// access of more than 16 bytes counts as several accesses of 16 bytes. Caches
/// are not modelled: if several warps or several instructions access a sector,
/// the sector counts once for each of them.
struct EmuCounts {
  int64_t readSectors = 0;
  int64_t writeSectors = 0;
};

class EmuDevice {
public:
  static constexpr int64_t warpLanes = 32;
  static constexpr int64_t maxThreads = 1024;
  /// The maximum dynamic shared memory per block of an A100.
  static constexpr int64_t maxSharedBytes = 163 * 1024;
  static constexpr int64_t sectorBytes = 32;
  /// The alignment of allocations of the CUDA driver.
  static constexpr int64_t memoryAlignment = 256;

  explicit EmuDevice(uint64_t seed);
  ~EmuDevice();
  EmuDevice(const EmuDevice &) = delete;
  EmuDevice &operator=(const EmuDevice &) = delete;

  /// Declares [begin, begin + bytes) as device memory, all of it uninitialised.
  /// The caller owns the memory, which must outlive the device. Returns an
  /// error if `begin` is not a multiple of `memoryAlignment` or the range
  /// overlaps memory that was declared before.
  Status addMemory(const char *begin, int64_t bytes);

  // The following functions update or check which bytes are initialised, for
  // operations other than kernels. They return an error if a range is not
  // within declared memory.

  /// Records that the host, a copy or a library call wrote the bytes.
  Status markInitialised(const void *begin, int64_t bytes);
  /// Marks the bytes as uninitialised. Called when the lifetime of a planned
  /// buffer begins.
  Status invalidate(const void *begin, int64_t bytes);
  /// Records a copy within device memory: a target byte becomes initialised if
  /// and only if its source byte is.
  Status copyInitialised(const void *to, const void *from, int64_t bytes);
  /// Returns an error if any of the bytes is uninitialised. `what` names the
  /// reader in the message.
  Status checkInitialised(const void *begin, int64_t bytes,
                          std::string_view what) const;

  /// Runs the kernel and returns its memory traffic. A fault ends the launch
  /// immediately and does not undo its writes. The error message names the
  /// launch, block and thread.
  Result<EmuCounts> launch(const EmuLaunch &launch);

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace kiln::runtime

#endif // KILN_RUNTIME_EMU_EMUDEVICE_H
