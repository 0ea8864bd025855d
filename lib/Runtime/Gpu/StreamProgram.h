//===- StreamProgram.h - A program on the streams of a GPU ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The commands of a program as actions on streams, loops unrolled. A stream
// carries out its actions one by one; between streams, an action may wait for
// an event that an action of another one records behind itself.
//
//   compute   kernels, products, fills and copies of the device
//   host      the same in the host arena: kernels with the ABI of the cpu
//   copy-out  asynchronous copies to the host arena
//   copy-in   and from it
//
// What waits for what is the order that the description promises, no more:
//   - an asynchronous copy for all of compute and host before its copy_start,
//     and for all copies that these waited for;
//   - compute and host, behind a copy_wait, for that copy;
//   - a kernel of the host that reads something on the device (a scalar) for
//     compute's last write of it, and compute, before the next, for the kernel.
// A wait that others imply is left out. Whether the order is enough for a plan
// is for StreamOrder.h to say.
//
// The end of a run joins all streams.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_GPU_STREAMPROGRAM_H
#define KILN_LIB_RUNTIME_GPU_STREAMPROGRAM_H

#include "kiln/Runtime/Engine/Program.h"

#include <array>
#include <cstdint>
#include <vector>

namespace kiln::runtime {

enum class Stream : uint8_t { Compute, Host, CopyOut, CopyIn };
inline constexpr std::size_t streamCount = 4;

/// "compute", "host", "copy-out", "copy-in".
const char *streamName(Stream stream);

/// One number per stream.
using StreamNumbers = std::array<int64_t, streamCount>;

inline int64_t &of(StreamNumbers &numbers, Stream stream) {
  return numbers[std::size_t(stream)];
}
inline int64_t of(const StreamNumbers &numbers, Stream stream) {
  return numbers[std::size_t(stream)];
}

/// Bytes of an arena.
struct ByteRange {
  ArenaKind arena = ArenaKind::Device;
  int64_t begin = 0, end = 0;

  bool overlaps(const ByteRange &other) const {
    return arena == other.arena && begin < other.end && other.begin < end;
  }
};

/// Bytes that an action reads or writes: from the first to the last one.
struct ByteAccess : ByteRange {
  bool writes = false;
};

struct StreamAction {
  std::size_t command = 0; ///< Index in the program.
  int64_t iteration = 0;   ///< Of the enclosing loop, or 0.
  Stream stream = Stream::Compute;
  std::vector<int64_t> waits; ///< Events, before it.
  int64_t event = -1;         ///< Recorded behind it; -1: none.
  std::vector<ByteAccess> accesses;
};

struct StreamProgram {
  /// In the order of the commands, so that waits refer to earlier actions.
  std::vector<StreamAction> actions;
  int64_t events = 0; ///< Their numbers are [0, events).
};

/// Of a program of a target with a GPU.
StreamProgram buildStreamProgram(const Program &program);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_STREAMPROGRAM_H
