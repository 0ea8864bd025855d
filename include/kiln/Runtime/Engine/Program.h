//===- Program.h - The parsed program description ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The program description of docs/reference/program-format.md as structs;
// Command.h contains the structs of the commands. parseProgramFile returns only
// valid programs: every reference is within its arena in every iteration of its
// loop, every kernel index is in the table, loops end in their segment and do
// not nest, sizes are not negative, every command is on a queue whose engine
// executes commands of this kind, every asynchronous copy has a wait, and no
// command races with the copy before this wait. The engine relies on these
// properties and does not check them during execution.
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
};

const char *slotClassName(SlotClass slotClass);

/// A planned buffer, which is live over the commands [first, last].
struct Slot {
  std::string name;
  SlotClass slotClass = SlotClass::Activation;
  ArenaKind arena = ArenaKind::Device;
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
  /// The element type. Empty if the buffer is a workspace, or holds elements of
  /// different types over its lifetime.
  std::optional<ElementType> type = std::nullopt;
  /// For a matrix with padded rows, the bytes of a row and the pitch in bytes;
  /// the padding has no value. Otherwise 0.
  int64_t rowBytes = 0, rowPitch = 0;
};

/// The component that executes the commands of a queue.
enum class QueueEngine : uint8_t {
  Device, ///< The GPU: kernels and vendor library calls on device memory.
  Host,   ///< The CPU.
  Link    ///< Asynchronous copies.
};

/// A queue executes its commands one after another, in program order. Commands
/// of different queues may run at the same time unless the description orders
/// them.
struct Queue {
  std::string name;
  QueueEngine engine = QueueEngine::Host;
  /// For a link, the direction of the copies; empty if no program has copies on
  /// this link.
  std::optional<CopyDirection> direction = std::nullopt;
};

/// One execution of a segment: commands [begin, end) of the program. The range
/// may be empty.
struct SegmentRun {
  std::string name;
  std::size_t begin = 0, end = 0;
};

struct Program {
  /// Offsets in the device arena, indexed like ProgramInfo::inputs.
  std::vector<int64_t> inputOffsets;
  /// Offsets in the device arena, indexed like ProgramInfo::outputs.
  std::vector<int64_t> outputOffsets;
  /// All commands in execution order. A segment that runs several times has a
  /// copy of its commands for each run.
  std::vector<Command> commands;
  /// The runs of segments in execution order. Together they cover all commands.
  std::vector<SegmentRun> segments;
  std::vector<Slot> slots;
  /// Number of CopyStart commands; tokens are in [0, copies).
  int64_t copies = 0;

  /// Returns the run of a segment that contains the command.
  const SegmentRun &segmentOf(std::size_t command) const;
};

struct ProgramFile {
  Description description;
  int64_t arenaBytes = 0; ///< Size of the device arena.
  /// The states occupy the first stateBytes bytes of the device arena.
  int64_t stateBytes = 0;
  int64_t hostArenaBytes = 0; ///< Size; 0: there is no host arena.
  /// The states in the host arena occupy its first hostStateBytes bytes.
  int64_t hostStateBytes = 0;
  /// Two queues have the same QueueEngine only if both are links.
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
