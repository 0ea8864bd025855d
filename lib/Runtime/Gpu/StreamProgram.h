//===- StreamProgram.h - A program as actions on GPU streams ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Converts the executions of a program's commands to actions on five streams. A
// stream executes its actions in order. An action may wait for an event, which
// an action of another stream records when it completes.
//
//   compute   the commands of the device queue
//   host      the commands of the host queue
//   copy-out  the copies to the host arena, of all queues
//   copy-in   the copies from the host arena, of all queues
//   rank      the collectives of all axes of the mesh, which all ranks must
//             begin in the same order
//
// The compiler determines the order of the commands and stores it in the
// program description. All waits follow from the description:
//   - If a command has an `after` list, its action waits for all earlier
//     actions of the queues in the list. It also waits for everything that the
//     next actions of these queues must wait for.
//   - If the wait for a transfer blocks a queue, the next action of that queue
//     waits for the last transfer that was started with the same token as the
//     wait has.
// buildStreamProgram() chooses the events that implement these waits, and omits
// waits that other waits imply. StreamOrder.h verifies that the events order
// all conflicting actions.
//
// A run ends when all streams have completed all their actions.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_GPU_STREAMPROGRAM_H
#define KILN_LIB_RUNTIME_GPU_STREAMPROGRAM_H

#include "kiln/Runtime/Engine/Program.h"

#include <array>
#include <cstdint>
#include <vector>

namespace kiln::runtime {

enum class Stream : uint8_t { Compute, Host, CopyOut, CopyIn, Ranks };
inline constexpr std::size_t streamCount = 5;

/// Returns "compute", "host", "copy-out", "copy-in" or "rank".
const char *streamName(Stream stream);

/// One number per stream, indexed by Stream.
using StreamNumbers = std::array<int64_t, streamCount>;

inline int64_t &of(StreamNumbers &numbers, Stream stream) {
  return numbers[std::size_t(stream)];
}
inline int64_t of(const StreamNumbers &numbers, Stream stream) {
  return numbers[std::size_t(stream)];
}

/// A range of bytes in an arena.
struct ByteRange {
  ArenaKind arena = ArenaKind::Device;
  int64_t begin = 0, end = 0;

  bool overlaps(const ByteRange &other) const {
    return arena == other.arena && begin < other.end && other.begin < end;
  }
};

/// The bytes from the first to the last byte that an action accesses through
/// one reference, including the bytes between rows.
struct ByteAccess : ByteRange {
  bool writes = false;
};

struct StreamAction {
  std::size_t command = 0; ///< Index in Program::commands.
  /// Identifies the execution of the segment (list of commands) to which the
  /// action belongs.
  abi::SegmentRun run;
  Stream stream = Stream::Compute;
  std::vector<int64_t> waits; ///< The events that the action waits for.
  /// The event that the action records, or -1 if the action records no event.
  int64_t event = -1;
  std::vector<ByteAccess> accesses;
};

struct StreamProgram {
  /// The actions, in the execution order of their commands. Therefore an action
  /// waits only for events that earlier actions record.
  std::vector<StreamAction> actions;
  int64_t events = 0; ///< The number of events.
};

/// Builds the stream program of `program`, which must belong to `file`. The
/// target of `file` must have a GPU.
StreamProgram buildStreamProgram(const ProgramFile &file,
                                 const Program &program);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_STREAMPROGRAM_H
