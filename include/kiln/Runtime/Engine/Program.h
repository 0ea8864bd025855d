//===- Program.h - The parsed program description ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The program description of docs/reference/program-format.md as structs; its
// commands are in Command.h. What parseProgramFile returns has been checked:
// every reference lies in its arena for every iteration of its loop, every
// kernel index is in the table, loops are closed within their segment and do
// not nest, sizes are not negative, every command is on a queue whose engine
// executes such commands, every asynchronous copy is waited for, and nothing
// disturbs it before. The engine relies on that and checks nothing while it
// walks.
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
};

const char *slotClassName(SlotClass slotClass);

/// A planned buffer, live over commands [first, last].
struct Slot {
  std::string name;
  SlotClass slotClass = SlotClass::Activation;
  ArenaKind arena = ArenaKind::Device;
  int64_t offset = 0;
  int64_t bytes = 0;
  int64_t first = 0;
  int64_t last = 0;
  /// Of its elements. Nothing: it has none, as what a kernel works in, or not
  /// always the same.
  std::optional<ElementType> type = std::nullopt;
  /// Of a matrix with gaps between its rows, in which there is no value: bytes
  /// of a row, and from one to the next. Else 0.
  int64_t rowBytes = 0, rowPitch = 0;
};

/// What executes the commands of a queue.
enum class QueueEngine : uint8_t {
  Device, ///< Kernels and the vendor library of a GPU, on its memory.
  Host,   ///< The cpu.
  Link    ///< Asynchronous copies.
};

/// Executes its commands one after another, in the order of a run. Commands of
/// different queues overlap unless the description orders them.
struct Queue {
  std::string name;
  QueueEngine engine = QueueEngine::Host;
  /// The direction of a link's copies; nothing if no program has any.
  std::optional<CopyDirection> direction = std::nullopt;
};

/// One entry of a program's order: the commands [begin, end) are those of a
/// segment, which may be none.
struct SegmentRun {
  std::string name;
  std::size_t begin = 0, end = 0;
};

struct Program {
  std::vector<int64_t> inputOffsets;  ///< As ProgramInfo::inputs.
  std::vector<int64_t> outputOffsets; ///< As ProgramInfo::outputs.
  /// Along the order: those of a segment are repeated for each of its runs.
  std::vector<Command> commands;
  std::vector<SegmentRun> segments; ///< Along the order, without gaps.
  std::vector<Slot> slots;
  int64_t copies = 0; ///< Copy starts; tokens are in [0, copies).

  /// The run of a segment that a command belongs to.
  const SegmentRun &segmentOf(std::size_t command) const;
};

struct ProgramFile {
  Description description;
  int64_t arenaBytes = 0;         ///< Of the device arena.
  int64_t stateBytes = 0;         ///< States occupy [0, stateBytes) of it.
  int64_t hostArenaBytes = 0;     ///< 0: no host arena.
  int64_t hostStateBytes = 0;     ///< States occupy [0, hostStateBytes) of it.
  std::vector<Queue> queues;      ///< Only links have an engine in common.
  std::vector<Place> statePlaces; ///< As Description::states.
  std::vector<Program> programs;  ///< As Description::programs.

  int64_t bytesOf(ArenaKind arena) const {
    return arena == ArenaKind::Host ? hostArenaBytes : arenaBytes;
  }
  int64_t stateBytesOf(ArenaKind arena) const {
    return arena == ArenaKind::Host ? hostStateBytes : stateBytes;
  }
};

/// Parses and checks a program description; `kernelCount` is the size of the
/// kernel table beside it.
Result<ProgramFile> parseProgramFile(std::string_view json,
                                     int64_t kernelCount);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_ENGINE_PROGRAM_H
