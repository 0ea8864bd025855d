//===- Command.h - Commands of a program and their accesses -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Structs for the commands of docs/reference/program-format.md, and functions
// that describe any command independently of its kind: the bytes that it reads
// and writes, and whether it starts an asynchronous transfer or waits for one.
// Engines execute commands through execute().
//
// A command of a forward or backward segment is executed once for each
// micro-batch. abi::SegmentRun identifies one of these executions, and
// determines the addresses, immediates and tokens that the command uses in it.
//
// To add a kind of command, extend the functions in Command.cpp that describe a
// command, such as accessesOf(). All checks of lifetimes, races, copies and
// written bytes then cover the new kind.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_ENGINE_COMMAND_H
#define KILN_RUNTIME_ENGINE_COMMAND_H

#include "kiln/Abi/GemmEpilogue.h"
#include "kiln/Abi/GemmKernel.h"
#include "kiln/Abi/SegmentOrder.h"
#include "kiln/Abi/VendorAttention.h"
#include "kiln/Runtime/Comm/Collective.h"
#include "kiln/Support/ElementType.h"

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace kiln::runtime {

/// Returns the execution of a segment (a list of commands) that belongs to no
/// micro-batch. Such a segment has one execution, which is both the first and
/// the last.
inline abi::SegmentRun outsideMicrobatches() {
  abi::SegmentRun run;
  run.isFirst = run.isLast = true;
  return run;
}

/// The two memories of a program.
enum class ArenaKind : uint8_t { Device, Host };

/// The address of a byte in an arena.
struct Place {
  int64_t offset = 0;
  ArenaKind arena = ArenaKind::Device;
};

/// The address of a byte in an arena: `offset`, plus `stride` bytes per
/// micro-batch and `ring` bytes per ring slot. Ring slots are instances of a
/// buffer that the micro-batches use in turn.
struct Ref {
  int64_t offset = 0;
  int64_t stride = 0;
  ArenaKind arena = ArenaKind::Device;
  int64_t ring = 0;

  Place at(const abi::SegmentRun &run) const {
    return {offset + stride * run.microbatch + ring * run.slot, arena};
  }
  /// Returns true if the address is the same in all executions.
  bool isFixed() const { return stride == 0 && ring == 0; }
};

/// An integer argument: `value` in the first execution of the forward or
/// backward segment that contains it, and `value` + `afterFirst` in all others.
struct Immediate {
  int64_t value = 0;
  int64_t afterFirst = 0;

  int64_t at(const abi::SegmentRun &run) const {
    return run.isFirst ? value : value + afterFirst;
  }
};

/// The number of an asynchronous transfer, which a CopyStart or a Collective
/// signals and a CopyWait waits for. Micro-batches in flight at the same time
/// use different numbers: an execution for the micro-batch in ring slot s uses
/// `number` + `ring` * s. See SegmentRun::slot for s; `ring` is 1 or 0.
struct Token {
  int64_t number = -1;
  int64_t ring = 0;

  int64_t at(const abi::SegmentRun &run) const {
    return number + ring * run.slot;
  }
};

/// Scratch memory of threads: thread t uses the bytes [offset + t *
/// bytesPerThread, offset + (t + 1) * bytesPerThread).
struct ScratchRef {
  int64_t offset = 0;
  /// Scratch bytes of a thread; 0: the command has no scratch memory.
  int64_t bytesPerThread = 0;
  int64_t bytes = 0; ///< Scratch bytes of all threads together.
};

/// The arguments of a kernel, and the number of work units, such as rows.
struct KernelCall {
  std::vector<Ref> args;
  std::vector<Immediate> immediates;
  std::vector<int64_t> writes; ///< Indexes of the args that the kernel writes.
  int64_t units = 0;
  /// For each arg, the number of bytes from its first to its last byte. Empty
  /// if the target is a CPU.
  std::vector<int64_t> extents = {};

  bool isWritten(std::size_t argument) const;
};

struct GemmOperand {
  Ref ref;
  int64_t ld = 0;
  bool trans = false;
  int64_t batchStride = 0; ///< In elements.
  /// Bytes from the first to the last element, in all batches.
  int64_t bytes = 0;
};

/// An operand of a vendor GEMM epilogue: a vector, or a matrix without padding,
/// with the element type of the result.
struct EpilogueOperand {
  Ref ref;
  /// Size of the operand; 0: the epilogue does not have this operand.
  int64_t bytes = 0;
};

/// Contiguous elements that a Collective accesses.
struct CollectiveElements {
  Ref ref;
  int64_t count = 0; ///< Number of elements.
  int64_t bytes = 0;
};

/// A tensor of a Collective, and the shard of it that this rank has. An
/// all-reduce has no shards.
struct CollectiveTensor {
  CollectiveElements whole, shard;
  /// The index, in its group of ranks, of the rank that owns the tensor; -1:
  /// none.
  int64_t owner = -1;
  /// False if another rank owns the tensor: `shard` is then not accessed.
  bool hasShard = true;
};

/// The factor of the old contents of c. `First` means Zero in the first
/// execution of the forward or backward segment, and One in all others.
enum class GemmBeta { Zero, One, First };

/// The executions of a forward or backward segment in which a command of the
/// segment is executed.
enum class When : uint8_t { Always, First, Last };

/// Workspace of a command in device memory. On a CPU, all threads share the
/// workspace. On a GPU, the vendor library uses it.
struct Workspace {
  int64_t offset = 0;
  int64_t bytes = 0; ///< Size; 0: the command has no workspace.
};

struct Command {
  enum class Kind { Launch, Gemm, Fill, Copy, CopyStart, Collective, CopyWait };

  Kind kind = Kind::Launch;
  std::string name;
  int64_t flops = 0; ///< Number of operations, for reports; 0: unknown.
  int64_t bytes = 0;
  When when = When::Always;
  /// The index of the only data-parallel rank that executes the command; -1:
  /// all ranks execute it.
  int64_t owner = -1;
  /// False if only another rank executes the command.
  bool isHere = true;

  // Members of all kinds except CopyWait. Queues are indexes into
  // ProgramFile::queues.
  int64_t queue = -1; ///< The queue that executes the command.
  /// The command begins after all earlier commands of these queues have
  /// completed.
  std::vector<int64_t> after;

  // Members of a Launch, and of a Gemm whose epilogue is a kernel.
  int64_t kernel = -1;
  int64_t grain = 1;
  std::optional<KernelCall> call;
  ScratchRef scratch;
  /// Threads per block of a GPU kernel; 0: a host kernel.
  int64_t threads = 0;
  int64_t sharedBytes = 0; ///< Shared memory bytes per block.
  /// If set, the kernel computes attention with these parameters, and the
  /// engine is allowed to call the vendor library instead. The library then
  /// uses `workspace`.
  std::optional<abi::VendorAttention> attention;
  /// The maximum number of launches whose arguments fit in the kernel's
  /// argument table; 0: the kernel has no table.
  int64_t tableMembers = 0;
  /// Number of launches in the group that begins with this launch: the engine
  /// may merge this launch and the next `group` - 1 launches into one launch.
  /// 1: no group begins with this launch.
  int64_t group = 1;
  int64_t member = 0; ///< Index of this launch in its group.

  // Gemm.
  ElementType type = ElementType::F32;       ///< Element type of a and b.
  ElementType resultType = ElementType::F32; ///< Element type of c.
  int64_t m = 0, n = 0, k = 0, batch = 1;
  GemmOperand a, b, c;
  GemmBeta beta = GemmBeta::Zero;
  int64_t gridM = 1, gridN = 1;
  abi::GemmKernel gemmKernel = abi::GemmKernel::Blas;
  Workspace workspace;
  bool epilogue = false;
  abi::GemmEpilogue library = abi::GemmEpilogue::None;
  EpilogueOperand bias, aux;

  // Fill uses `to`; Copy and CopyStart use `from` and `to`. Each of these
  // commands writes `size` bytes. The whole tensors of a Collective have `size`
  // bytes in total, and elements of type `type`.
  Ref from, to;
  int64_t size = 0;
  /// For a Copy of the shard of this rank from a whole tensor at `from`, the
  /// size of the whole tensor in bytes; 0 for other copies.
  int64_t wholeBytes = 0;

  Collective collective = Collective::AllReduce;
  std::vector<CollectiveTensor> tensors; ///< Collective: at least one entry.
  /// For a Collective or a Copy of a shard, the mesh axis as an index into
  /// Mesh::axes of Description::mesh.
  int64_t axis = -1;

  Token token; ///< The token of a CopyStart, Collective or CopyWait.
  std::vector<int64_t> heldQueues; ///< CopyWait: the queues that wait.
};

/// The kinds of asynchronous transfers: copies in the two directions of the
/// link between the arenas, and collectives of ranks. The transfers of one kind
/// are executed in the order of their starts, independently of other kinds.
enum class TransferKind : uint8_t {
  CopyOut, ///< From the device arena to the host arena.
  CopyIn,  ///< From the host arena to the device arena.
  Collective
};
inline constexpr std::size_t transferKinds = 3;

/// Returns the kind of the transfer that a CopyStart or a Collective starts.
inline TransferKind transferKind(const Command &command) {
  if (command.kind == Command::Kind::Collective)
    return TransferKind::Collective;
  return command.to.arena == ArenaKind::Host ? TransferKind::CopyOut
                                             : TransferKind::CopyIn;
}

/// Returns true for a launch of a GPU kernel.
inline bool isDeviceLaunch(const Command &command) {
  return command.threads > 0;
}

/// Returns the name of the kind in the program description: "launch", "gemm",
/// ...
const char *commandKindName(const Command &command);

//===----------------------------------------------------------------------===//
// Memory accesses of a command
//===----------------------------------------------------------------------===//

enum class AccessMode : uint8_t {
  Read,
  Write,    ///< The command reads no byte before it has written that byte.
  ReadWrite ///< The command writes the bytes and may read them first.
};

/// The role of the accessed bytes in the command.
enum class AccessUse : uint8_t {
  Argument, ///< An argument of a launched kernel or of an epilogue kernel.
  Matrix,   ///< Operand a, b or c of a gemm.
  Beside,   ///< The bias or aux operand of a gemm.
  Transfer, ///< The data of a fill, a copy or a collective.
  Scratch,  ///< Scratch memory of the threads that run a kernel.
  Workspace ///< Workspace of a gemm or of the vendor library.
};

/// Value of MemoryAccess::bytes for a kernel argument if the target is a CPU.
/// The descriptions of CPU programs do not contain the sizes of arguments.
inline constexpr int64_t unknownBytes = -1;

/// A range of bytes that a command reads or writes.
struct MemoryAccess {
  Ref ref;           ///< The first byte.
  int64_t bytes = 0; ///< Size of the range, or unknownBytes.
  AccessMode mode = AccessMode::Read;
  AccessUse use = AccessUse::Argument;
  /// The index of the only data-parallel rank that has this access; -1: all
  /// ranks have it.
  int64_t owner = -1;

  bool reads() const { return mode != AccessMode::Write; }
  bool writes() const { return mode != AccessMode::Read; }
  /// Returns true if the contents of the memory are undefined before and after
  /// the command.
  bool isTemporary() const {
    return use == AccessUse::Scratch || use == AccessUse::Workspace;
  }
};

/// Returns all accesses of one execution of a command, in this order: kernel
/// arguments, scratch, matrices a, b and c, bias, aux, source, destination,
/// the elements of a collective, workspace. An access has 0 bytes if the
/// description specifies a size of 0. A CopyStart or Collective has all
/// accesses of its asynchronous transfer, although they may occur at any time
/// until the CopyWait. A CopyWait has no accesses.
std::vector<MemoryAccess> accessesOf(const Command &command);

/// Returns the accesses of a command that write, except accesses to temporary
/// memory (isTemporary()).
std::vector<MemoryAccess> resultsOf(const Command &command);

//===----------------------------------------------------------------------===//
// Execution
//===----------------------------------------------------------------------===//

/// Calls the member function of `on` that executes a command of this kind:
/// launch(), gemm(), fill(), copy(), startCopy(), startCollective() or
/// waitForTransfer(). All of them have the same result type.
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
  case Command::Kind::Collective:
    return on.startCollective();
  case Command::Kind::CopyWait:
    return on.waitForTransfer();
  }
  return Outcome();
}

//===----------------------------------------------------------------------===//
// Control flow and asynchronous transfers
//===----------------------------------------------------------------------===//

/// Returns true if at least one rank executes the command in this execution of
/// its segment (list of commands).
inline bool isExecutedSomewhere(const Command &command,
                                const abi::SegmentRun &run) {
  return command.when == When::Always ||
         (command.when == When::First ? run.isFirst : run.isLast);
}

/// Returns true if this rank executes the command in this execution of its
/// segment (list of commands).
inline bool isExecuted(const Command &command, const abi::SegmentRun &run) {
  return command.isHere && isExecutedSomewhere(command, run);
}

/// Return true if the command starts an asynchronous transfer, and if it waits
/// for one, respectively. A CopyWait waits for the transfer that was started
/// last with the same token number.
bool startsTransfer(const Command &command);
bool waitsForTransfer(const Command &command);

} // namespace kiln::runtime

#endif // KILN_RUNTIME_ENGINE_COMMAND_H
