//===- Program.h - The parsed program description ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The program description of docs/program-format.md as structs. What
// parseProgramFile returns has been checked: every reference lies in its arena
// for every iteration of its loop, every kernel index is in the table, loops
// are closed and do not nest, sizes are not negative, every asynchronous copy
// is waited for once, and nothing disturbs it before. The engine relies on that
// and checks nothing while it walks.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_ENGINE_PROGRAM_H
#define KILN_RUNTIME_ENGINE_PROGRAM_H

#include "kiln/Runtime/Engine/Description.h"
#include "kiln/Runtime/Engine/LibraryAttention.h"
#include "kiln/Runtime/Engine/ProductEpilogue.h"
#include "kiln/Runtime/Status.h"

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace kiln {

/// Of the two memories of a program.
enum class ArenaKind : uint8_t { Device, Host };

/// A byte of an arena.
struct Place {
  int64_t offset = 0;
  ArenaKind arena = ArenaKind::Device;
};

/// Byte offset in an arena, plus `stride` bytes per loop iteration.
struct Ref {
  int64_t offset = 0;
  int64_t stride = 0;
  ArenaKind arena = ArenaKind::Device;

  Place at(int64_t iteration) const {
    return {offset + stride * iteration, arena};
  }
};

/// Integer argument, plus `stride` per loop iteration.
struct Immediate {
  int64_t value = 0;
  int64_t stride = 0;
};

/// Per-thread scratch: thread t has [offset + t*bytesPerThread,
/// +bytesPerThread).
struct ScratchRef {
  int64_t offset = 0;
  int64_t bytesPerThread = 0; ///< 0: none.
};

/// What a kernel is called with.
struct KernelCall {
  std::vector<Ref> args;
  std::vector<Immediate> immediates;
  std::vector<int64_t> writes; ///< Indexes of the args that are written.
  int64_t units = 0;
  /// Targets with a GPU: bytes of each arg, from its first to its last one.
  std::vector<int64_t> extents = {};
};

struct GemmOperand {
  Ref ref;
  int64_t ld = 0;
  bool trans = false;
  int64_t batchStride = 0; ///< In elements.
  int64_t bytes = 0;       ///< From the first to the last one, in all batches.
};

/// What the library of a GPU reads or writes beside a product: dense, and of
/// the result's type.
struct BesideProduct {
  Ref ref;
  int64_t bytes = 0; ///< 0: none.
};

enum class GemmBeta { Zero, One, First };

/// Memory of the device in which a product works: of all threads on a cpu, of
/// the library on a GPU.
struct Workspace {
  int64_t offset = 0;
  int64_t bytes = 0; ///< 0: none.
};

struct Command {
  enum class Kind {
    Launch,
    Gemm,
    LoopBegin,
    LoopEnd,
    Fill,
    Copy,
    CopyStart,
    CopyWait
  };

  Kind kind = Kind::Launch;
  std::string name;
  int64_t flops = 0; ///< For reports; 0: unknown.
  int64_t bytes = 0;

  // Launch, and the epilogue of a Gemm.
  int64_t kernel = -1;
  int64_t grain = 1;
  std::optional<KernelCall> call;
  ScratchRef scratch;
  int64_t threads = 0;     ///< Of a block of a GPU kernel; 0: not one.
  int64_t sharedBytes = 0; ///< Of a block.
  /// What a library of the GPU may do in the kernel's place, in `workspace`.
  std::optional<LibraryAttention> attention;
  /// Room in the table that the kernel gets its arguments in; 0: it has none.
  int64_t tableMembers = 0;
  int64_t group = 1;  ///< So many launches from this one on may be one.
  int64_t member = 0; ///< Of the group that the launch is in.

  // Gemm.
  TensorType type = TensorType::F32;       ///< Of a and b.
  TensorType resultType = TensorType::F32; ///< Of c.
  int64_t m = 0, n = 0, k = 0, batch = 1;
  GemmOperand a, b, c;
  GemmBeta beta = GemmBeta::Zero;
  int64_t gridM = 1, gridN = 1;
  Workspace workspace;
  bool epilogue = false;
  ProductEpilogue library = ProductEpilogue::None;
  BesideProduct bias, aux;

  int64_t count = 0; ///< LoopBegin: iterations.

  // Fill (to), Copy and CopyStart (from, to); `size` bytes.
  Ref from, to;
  int64_t size = 0;

  int64_t token = -1; ///< CopyStart and CopyWait: which copy of the program.
};

/// The two directions of the link between the arenas.
enum class CopyDirection : uint8_t { Out, In };
inline constexpr std::size_t copyDirections = 2;

/// Of a CopyStart: out to the host arena, or in from it.
inline CopyDirection copyDirection(const Command &command) {
  return command.to.arena == ArenaKind::Host ? CopyDirection::Out
                                             : CopyDirection::In;
}

/// Whether a launch runs a GPU kernel.
inline bool isDeviceLaunch(const Command &command) {
  return command.threads > 0;
}

/// Where a command writes, scratch and workspace excepted.
std::vector<Ref> writtenRefs(const Command &command);

/// As in the description: "launch", "gemm", ...
const char *commandKindName(Command::Kind kind);

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
  std::optional<TensorType> type = std::nullopt;
  /// Of a matrix with gaps between its rows, in which there is no value: bytes
  /// of a row, and from one to the next. Else 0.
  int64_t rowBytes = 0, rowPitch = 0;
};

struct Program {
  std::vector<int64_t> inputOffsets;  ///< As ProgramInfo::inputs.
  std::vector<int64_t> outputOffsets; ///< As ProgramInfo::outputs.
  std::vector<Command> commands;
  std::vector<Slot> slots;
  int64_t copies = 0; ///< Asynchronous ones; their tokens are [0, copies).
};

struct ProgramFile {
  Description description;
  int64_t arenaBytes = 0;         ///< Of the device arena.
  int64_t stateBytes = 0;         ///< States occupy [0, stateBytes) of it.
  int64_t hostArenaBytes = 0;     ///< 0: no host arena.
  int64_t hostStateBytes = 0;     ///< States occupy [0, hostStateBytes) of it.
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

} // namespace kiln

#endif // KILN_RUNTIME_ENGINE_PROGRAM_H
