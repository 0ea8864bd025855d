//===- EmuDevice.h - A GPU played by the CPU, for tests ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs emulated kernels (kiln/Abi/EmulatedKernel.h) with blocks, warps of 32
// lanes, barriers, shuffles and shared memory, one GPU thread at a time, and
// checks what a GPU would let pass or answer with wrong numbers:
//   - races in shared memory, and in global memory between the threads of one
//     launch: two threads, one cell, one of them writing, no barrier between
//     (and no barrier lies between different blocks);
//   - accesses outside of the launch's arguments or of shared memory, writes
//     into arguments that the launch only reads, misaligned accesses;
//   - reads of bytes that nothing wrote since the device's memory was declared,
//     invalidated or, for shared memory, since the block began. Shared memory
//     holds NaNs then;
//   - a barrier or a shuffle that only part of the block or warp reaches.
// All are exact to the byte. A barrier orders accesses; a shuffle does not.
//
// What a launch leaves unordered is shuffled by the device's seed: the order of
// the blocks, and which warp runs next. A warp runs until it has to wait.
// Everything is a function of the seed and of the calls made.
//
// A device belongs to one OS thread at a time.
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

/// One argument of a kernel: it gets `begin`, and may touch [begin, end).
/// Arguments may overlap; what any one of them allows is allowed.
struct EmuArgument {
  char *begin = nullptr;
  char *end = nullptr;
  bool isWritten = false;
  std::string_view name; ///< For messages; may be empty.
};

struct EmuLaunch {
  EmuKernel kernel = nullptr;
  std::string_view name; ///< Of the kernel and its op, for messages.
  /// Of all members, one after the other.
  std::vector<EmuArgument> arguments;
  std::vector<int64_t> immediates;
  /// Names of the launches that are one, each with blocks and an equal number
  /// of arguments of its own, which it alone may touch. Empty: just one launch.
  std::vector<std::string_view> members;
  int64_t units =
      0; ///< Of a member. Blocks: units / unitsPerBlock, rounded up.
  int64_t unitsPerBlock = 1;
  int64_t threads = 1;     ///< Of a block.
  int64_t sharedBytes = 0; ///< Of a block.
};

/// What a launch moved, in sectors of 32 bytes. The lanes of a warp that pass
/// the same access together touch each sector once; an access of more than 16
/// bytes is several of 16. Caches are not modelled: another warp, or another
/// access, counts again.
struct EmuCounts {
  int64_t readSectors = 0;
  int64_t writeSectors = 0;
};

class EmuDevice {
public:
  static constexpr int64_t warpLanes = 32;
  static constexpr int64_t maxThreads = 1024;
  /// As much as an A100 has for a block that asks for it.
  static constexpr int64_t maxSharedBytes = 163 * 1024;
  static constexpr int64_t sectorBytes = 32;
  /// Of the memory of a device, as drivers allocate it.
  static constexpr int64_t memoryAlignment = 256;

  explicit EmuDevice(uint64_t seed);
  ~EmuDevice();
  EmuDevice(const EmuDevice &) = delete;
  EmuDevice &operator=(const EmuDevice &) = delete;

  /// Declares [begin, begin + bytes) as memory of the device, all of it
  /// uninitialised. It stays the caller's and outlives the device.
  Status addMemory(const char *begin, int64_t bytes);

  /// What else happens to the device's memory. The ranges lie in it.
  /// The host, a copy or a library call wrote the bytes:
  Status markInitialised(const void *begin, int64_t bytes);
  /// The lifetime of a slot begins:
  Status invalidate(const void *begin, int64_t bytes);
  /// A copy within the memory carried bytes that may be uninitialised:
  Status copyInitialised(const void *to, const void *from, int64_t bytes);
  /// Fails if any of the bytes is uninitialised. `what`: who reads them.
  Status checkInitialised(const void *begin, int64_t bytes,
                          std::string_view what) const;

  /// Runs the kernel to its end. A fault ends it early, with memory as the
  /// kernel left it; the message names the launch, block and thread.
  Result<EmuCounts> launch(const EmuLaunch &launch);

private:
  struct State;
  std::unique_ptr<State> state_;
};

} // namespace kiln::runtime

#endif // KILN_RUNTIME_EMU_EMUDEVICE_H
