//===- StreamProgram.h - A program on the streams of a GPU ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The commands of a program as actions on streams, loops unrolled. A stream
// carries out its actions one by one; between streams, an action may wait for
// an event that an action of another one records after itself.
//
//   compute   the commands of the queue of the device
//   host      the commands of the queue of the host
//   copy-out  the copies of all links that copy to the host arena
//   copy-in   the copies of all links that copy from it
//
// The compiler decides what waits for what; the description has it, and this
// file adds no order of its own:
//   - an action waits for all earlier actions of the queues that its command is
//     `after`, and for everything that their next actions would wait for;
//   - the next action of each queue that a copy_wait holds up waits for the
//     latest copy that was started with the token.
// Which events these waits need is decided here: a wait that others imply is
// left out. StreamOrder.h checks that the order suffices for a plan.
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
  int64_t event = -1;         ///< Recorded after it; -1: none.
  std::vector<ByteAccess> accesses;
};

struct StreamProgram {
  /// In the order of the commands, so that waits refer to earlier actions.
  std::vector<StreamAction> actions;
  int64_t events = 0; ///< Their numbers are [0, events).
};

/// `program` is one of the programs of `file`, whose target has a GPU.
StreamProgram buildStreamProgram(const ProgramFile &file,
                                 const Program &program);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_STREAMPROGRAM_H
