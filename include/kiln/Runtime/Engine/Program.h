//===- Program.h - The parsed program description ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The program description of docs/reference/program-format.md as structs;
// Command.h contains the structs of the commands. parseProgramFile returns only
// programs with these properties, on which the engine relies without checks
// during execution:
//
// - Every reference is within its arena in every execution.
// - Every kernel index is in the kernel table.
// - Every micro-batch executes the forward segment once, and afterwards the
//   backward segment once.
// - Sizes are not negative.
// - Every command is on a queue whose engine executes commands of this kind.
// - For every asynchronous transfer, there is a command that waits for it. No
//   command that runs before the wait races with the transfer.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_ENGINE_PROGRAM_H
#define KILN_RUNTIME_ENGINE_PROGRAM_H

#include "kiln/Runtime/Engine/Command.h"
#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Support/Status.h"

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln::runtime {

enum class SlotClass {
  Parameter,
  Optimizer,
  Gradient,
  Activation,
  Workspace,
  Communication,
  Input,
  Output,
  Constant,
  Materialized, ///< Computed from states alone.
};

const char *slotClassName(SlotClass slotClass);

/// A planned buffer, which is live over the commands [first, last].
///
/// The forward and the backward segment are executed once for each micro-batch.
/// If `first` or `last` is in one of them, the first case that applies defines
/// the lifetime:
/// - the slot holds an input, an output or a state (`isOutside`): all
///   executions of both segments
/// - both `first` and `last` are in these segments: one lifetime for each
///   micro-batch
/// - `first` is in the backward segment and `last` after it: from the last
///   execution of the backward segment to `last`
/// - otherwise: all executions of both segments
struct Slot {
  std::string name;
  /// The only data-parallel rank that has the slot; -1: all ranks have it.
  int64_t owner = -1;
  SlotClass slotClass = SlotClass::Activation;
  ArenaKind arena = ArenaKind::Device;
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
  /// The element type. Empty if the buffer is a workspace, or holds elements of
  /// different types over its lifetime.
  std::optional<ElementType> type = std::nullopt;
  /// For a matrix with padded rows, the bytes of a row without its padding and
  /// with its padding, respectively; the padding has no value. Otherwise 0.
  int64_t rowBytes = 0, rowPitch = 0;
  /// If not 0, the buffer has several instances, which the micro-batches use in
  /// turn (Microbatches::slots), and `ring` is the distance in bytes from one
  /// instance to the next.
  int64_t ring = 0;
  /// True if the slot holds an input, an output or a state, which the caller
  /// accesses before the first and after the last command.
  bool isOutside = false;

  /// Returns the address of the buffer or, if it has several instances (see
  /// `ring`), of the instance that an execution uses.
  Place at(const abi::SegmentRun &run) const {
    return {offset + ring * run.slot, arena};
  }
};

/// The component that executes the commands of a queue.
enum class QueueEngine : uint8_t {
  Device, ///< The GPU: kernels and vendor library calls on device memory.
  Host,   ///< The CPU.
  Link    ///< Asynchronous copies between the arenas, and collectives.
};

/// A queue executes its commands one after another, in program order. Commands
/// of different queues may run at the same time unless the description orders
/// them.
struct Queue {
  std::string name;
  QueueEngine engine = QueueEngine::Host;
  /// For a queue with the engine Link, the kind of its transfers; nullopt if
  /// no program starts transfers on this queue. Other queues: nullopt.
  std::optional<TransferKind> transfers = std::nullopt;
};

/// A segment: commands [begin, end) of the program. The range may be empty.
struct ProgramSegment {
  std::string name;
  std::size_t begin = 0, end = 0;
};

/// One execution of a segment.
struct ProgramRun {
  std::size_t segment = 0; ///< Index in Program::segments.
  /// The execution of the segment; outsideMicrobatches() for a segment that is
  /// not executed per micro-batch.
  abi::SegmentRun run;
};

/// The micro-batches of a program.
struct Microbatches {
  int64_t count = 0; ///< 0: the program has no micro-batches.
  /// The number of instances of every buffer with Slot::ring > 0.
  int64_t slots = 1;
  /// The forward segment is commands [forward, backward), and the backward
  /// segment is commands [backward, end).
  std::size_t forward = 0, backward = 0, end = 0;

  /// Returns true if the command is in the forward or backward segment.
  bool contains(int64_t command) const {
    return int64_t(forward) <= command && command < int64_t(end);
  }
};

/// The first and the last command of a lifetime.
struct Lifetime {
  int64_t first = 0, last = 0;

  bool contains(int64_t command) const {
    return first <= command && command <= last;
  }
};

struct Program {
  std::vector<int64_t> inputOffsets;  ///< Indexed like ProgramInfo::inputs.
  std::vector<int64_t> outputOffsets; ///< Indexed like ProgramInfo::outputs.
  /// The commands of all segments (lists of commands) in the order in which the
  /// description lists the segments for execution. If this list names a segment
  /// several times, `commands` has a copy of its commands for each time.
  std::vector<Command> commands;
  /// The segments in the order of their commands. Together they cover all
  /// commands.
  std::vector<ProgramSegment> segments;
  std::vector<ProgramRun> runs; ///< In execution order.
  Microbatches microbatches;
  std::vector<Slot> slots;
  /// The number of tokens of asynchronous transfers; tokens are in [0, tokens).
  int64_t tokens = 0;

  /// Returns the segment that contains the command.
  const ProgramSegment &segmentOf(std::size_t command) const;
  /// Returns how often the command is executed.
  int64_t executionsOf(std::size_t command) const;
  /// Returns true if the slot has one lifetime for each micro-batch.
  bool livesPerMicrobatch(const Slot &slot) const {
    return !slot.isOutside && microbatches.contains(slot.first) &&
           microbatches.contains(slot.last);
  }
  /// Returns the lifetime of a slot. If the slot is live during all executions
  /// of the forward and backward segments, the lifetime contains all commands
  /// of these segments.
  Lifetime lifetimeOf(const Slot &slot) const;
  /// Returns " for micro-batch 3", or an empty string if no micro-batch
  /// executes the command.
  std::string ofMicrobatch(std::size_t command,
                           const abi::SegmentRun &run) const;
};

struct ProgramFile {
  Description description;
  int64_t arenaBytes = 0; ///< Size of the device arena.
  /// The states occupy the first stateBytes bytes of the device arena.
  int64_t stateBytes = 0;
  int64_t hostArenaBytes = 0; ///< Size; 0: there is no host arena.
  /// The states in the host arena occupy its first hostStateBytes bytes.
  int64_t hostStateBytes = 0;
  /// At most one queue has the engine Device, and at most one has the engine
  /// Host. Any number of queues may have the engine Link.
  std::vector<Queue> queues;
  /// Addresses of the states, indexed like Description::states.
  std::vector<Place> statePlaces;
  std::vector<Program> programs; ///< Indexed like Description::programs.

  int64_t bytesOf(ArenaKind arena) const {
    return arena == ArenaKind::Host ? hostArenaBytes : arenaBytes;
  }
  int64_t stateBytesOf(ArenaKind arena) const {
    return arena == ArenaKind::Host ? hostStateBytes : stateBytes;
  }
};

/// Parses and checks a program description. `kernelCount` is the number of
/// kernels in the kernel table of the executable.
Result<ProgramFile> parseProgramFile(std::string_view json,
                                     int64_t kernelCount);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_ENGINE_PROGRAM_H
