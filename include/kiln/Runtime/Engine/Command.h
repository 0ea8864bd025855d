//===- Command.h - A command of a program and what it touches ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The commands of docs/reference/program-format.md as structs, and the
// questions that can be asked of any command, whatever its kind: which bytes it
// reads and writes, whether it begins or ends a loop, whether it starts a copy
// or waits for one. Engines execute commands by way of execute().
// A new kind of command answers these questions in Command.cpp, and every check
// of lifetimes, races, copies and written bytes covers it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_ENGINE_COMMAND_H
#define KILN_RUNTIME_ENGINE_COMMAND_H

#include "kiln/Abi/GemmEpilogue.h"
#include "kiln/Abi/VendorAttention.h"
#include "kiln/Support/ElementType.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime {

/// The two memories of a program.
enum class ArenaKind : uint8_t { Device, Host };

/// A byte of an arena.
struct Place {
  int64_t offset = 0;
  ArenaKind arena = ArenaKind::Device;
};

/// A byte offset in an arena, plus `stride` bytes per loop iteration.
struct Ref {
  int64_t offset = 0;
  int64_t stride = 0;
  ArenaKind arena = ArenaKind::Device;

  Place at(int64_t iteration) const {
    return {offset + stride * iteration, arena};
  }
};

/// An integer argument, plus `stride` per loop iteration.
struct Immediate {
  int64_t value = 0;
  int64_t stride = 0;
};

/// Per-thread scratch: thread t has [offset + t*bytesPerThread,
/// +bytesPerThread).
struct ScratchRef {
  int64_t offset = 0;
  int64_t bytesPerThread = 0; ///< 0: none.
  int64_t bytes = 0;          ///< Of all threads.
};

/// The arguments of a kernel, and how many units it works on.
struct KernelCall {
  std::vector<Ref> args;
  std::vector<Immediate> immediates;
  std::vector<int64_t> writes; ///< Indexes of the args that are written.
  int64_t units = 0;
  /// Targets with a GPU: bytes of each arg, from its first to its last one.
  std::vector<int64_t> extents = {};

  bool isWritten(std::size_t argument) const;
};

struct GemmOperand {
  Ref ref;
  int64_t ld = 0;
  bool trans = false;
  int64_t batchStride = 0; ///< In elements.
  int64_t bytes = 0;       ///< From the first to the last one, in all batches.
};

/// A dense operand of an epilogue of a GPU's vendor library, of the result's
/// type.
struct EpilogueOperand {
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

  // All but LoopBegin, LoopEnd and CopyWait. Queues are indexes in
  // ProgramFile::queues.
  int64_t queue = -1;         ///< The queue that executes the command.
  std::vector<int64_t> after; ///< Their earlier commands end before it begins.

  // Launch, and the epilogue of a Gemm.
  int64_t kernel = -1;
  int64_t grain = 1;
  std::optional<KernelCall> call;
  ScratchRef scratch;
  int64_t threads = 0;     ///< Of a block of a GPU kernel; 0: not one.
  int64_t sharedBytes = 0; ///< Of a block.
  /// What a library of the GPU may do in the kernel's place, in `workspace`.
  std::optional<abi::VendorAttention> attention;
  /// Room in the table that the kernel gets its arguments in; 0: it has none.
  int64_t tableMembers = 0;
  int64_t group = 1;  ///< So many launches from this one on may be one.
  int64_t member = 0; ///< Of the group that the launch is in.

  // Gemm.
  ElementType type = ElementType::F32;       ///< Of a and b.
  ElementType resultType = ElementType::F32; ///< Of c.
  int64_t m = 0, n = 0, k = 0, batch = 1;
  GemmOperand a, b, c;
  GemmBeta beta = GemmBeta::Zero;
  int64_t gridM = 1, gridN = 1;
  Workspace workspace;
  bool epilogue = false;
  abi::GemmEpilogue library = abi::GemmEpilogue::None;
  EpilogueOperand bias, aux;

  int64_t count = 0; ///< LoopBegin: iterations.

  // Fill (to), Copy and CopyStart (from, to); `size` bytes.
  Ref from, to;
  int64_t size = 0;

  int64_t token = -1; ///< CopyStart signals it, CopyWait waits for it.
  std::vector<int64_t> heldQueues; ///< CopyWait: the queues that wait.
};

/// The two directions of the link between the arenas.
enum class CopyDirection : uint8_t { Out, In };
inline constexpr std::size_t copyDirections = 2;

/// A CopyStart copies out to the host arena or in from it.
inline CopyDirection copyDirection(const Command &command) {
  return command.to.arena == ArenaKind::Host ? CopyDirection::Out
                                             : CopyDirection::In;
}

/// True for a launch of a GPU kernel.
inline bool isDeviceLaunch(const Command &command) {
  return command.threads > 0;
}

/// As in the description: "launch", "gemm", ...
const char *commandKindName(Command::Kind kind);

//===----------------------------------------------------------------------===//
// What a command touches
//===----------------------------------------------------------------------===//

enum class AccessMode : uint8_t {
  Read,
  Write,    ///< No byte is read before the command has written it.
  ReadWrite ///< Bytes are written, and may be read before.
};

/// The part that the accessed bytes play in the command.
enum class AccessUse : uint8_t {
  Argument, ///< An argument of a kernel, be it a launch's or an epilogue's.
  Matrix,   ///< The a, b or c of a gemm.
  Beside,   ///< The bias or aux of a gemm.
  Transfer, ///< The source or the destination of a fill or a copy.
  Scratch,  ///< Memory of the threads that run a kernel.
  Workspace ///< Memory of a gemm or of a vendor library.
};

/// The size of an argument on a cpu, where the description does not give it.
inline constexpr int64_t unknownBytes = -1;

/// Bytes that a command reads or writes.
struct MemoryAccess {
  Ref ref;           ///< The first byte, and how it moves with the loop.
  int64_t bytes = 0; ///< From the first to the last one; may be unknownBytes.
  AccessMode mode = AccessMode::Read;
  AccessUse use = AccessUse::Argument;

  bool reads() const { return mode != AccessMode::Write; }
  bool writes() const { return mode != AccessMode::Read; }
  /// True for memory that holds nothing before the command or after it.
  bool isTemporary() const {
    return use == AccessUse::Scratch || use == AccessUse::Workspace;
  }
};

/// All accesses of a command in an iteration of its loop: arguments in their
/// order, scratch, the matrices a, b and c, bias, aux, source, destination,
/// workspace. An access may have 0 bytes where the description says so. Only
/// the asynchronous copy's start has its accesses, not its wait, although they
/// happen anywhere between the two.
std::vector<MemoryAccess> accessesOf(const Command &command);

/// The accesses that write, but for temporary memory.
std::vector<MemoryAccess> resultsOf(const Command &command);

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

/// Calls the member function of `on` that executes such a command: launch(),
/// gemm(), fill(), copy(), startCopy() or waitForCopy(), which have one result
/// type. For the two commands around a loop, returns a default result.
template <typename Executor> auto execute(const Command &command, Executor on) {
  using Outcome = decltype(on.launch());
  switch (command.kind) {
  case Command::Kind::Launch:
    return on.launch();
  case Command::Kind::Gemm:
    return on.gemm();
  case Command::Kind::Fill:
    return on.fill();
  case Command::Kind::Copy:
    return on.copy();
  case Command::Kind::CopyStart:
    return on.startCopy();
  case Command::Kind::CopyWait:
    return on.waitForCopy();
  case Command::Kind::LoopBegin:
  case Command::Kind::LoopEnd:
    break;
  }
  return Outcome();
}

//===----------------------------------------------------------------------===//
// How a command takes part in the order of a program
//===----------------------------------------------------------------------===//

/// True for the two commands around a loop, which do nothing themselves. The
/// first one has Command::count.
bool beginsLoop(const Command &command);
bool endsLoop(const Command &command);

/// True for the two ends of an asynchronous copy, which share Command::token. A
/// wait is for the latest start before it in the order of a run.
bool startsCopy(const Command &command);
bool waitsForCopy(const Command &command);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_ENGINE_COMMAND_H
