//===- BufferPlan.h - Assignment of values to buffers -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The buffer plan of a program at the dispatched level: buffers, the location
// of each value in a buffer (Place), and the commands in order. The plan
// determines which values share a buffer. Afterwards, the arena planner assigns
// an arena offset to each buffer.
//
//   view     The location of a view is derived from that of its source.
//   concat   Operands are placed inside the result, so that the ops that
//            compute them write directly into the result.
//   tie      A result uses the buffer of an operand if the op requires this
//            (updates, accumulation), or if the row program permits it and the
//            lifetime of the operand ends at the op.
//   copy     For a copy between device and host, source and destination are
//            live from the start of the copy until the wait for the copy. The
//            new value of a state is copied directly to the buffer of the
//            state.
//   matmul   The result of a matmul with an epilogue is stored at the location
//            of one of the results of the epilogue.
//   padding  The rows of a GEMM operand start at multiples of the row alignment
//            of the target, if all ops that access the matrix support a pitch.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_CONVERSION_KILNTOKILNRT_BUFFERPLAN_H
#define KILN_CONVERSION_KILNTOKILNRT_BUFFERPLAN_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/Kiln/IR/Owners.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

#include <climits>
#include <string>

namespace kiln {

class TargetBackend;
class RowPrograms;

struct Buffer {
  std::string name;
  std::string why;
  rt::SlotClass slotClass = rt::SlotClass::Activation;
  int64_t bytes = 0;
  /// First and last command of the lifetime. If commands of micro-batches and
  /// commands outside of micro-batches use the buffer, the lifetime includes
  /// all commands of micro-batches. Exception: if the buffer is first used in
  /// the last execution of the backward segment, the lifetime begins at the
  /// first command that uses the buffer.
  int64_t first = INT64_MAX, last = -1;
  /// The number of instances, and the bytes from one instance to the next. A
  /// buffer that is live in both segments of a micro-batch, but not outside of
  /// micro-batches, has one instance for each micro-batch that may be in flight
  /// (between its two segments). Every other buffer has one instance.
  int64_t instances = 1, ringStride = 0;
  StateOp state; ///< The state that the buffer stores, or null.
  /// The only data-parallel rank that has the buffer, or kNoOwner if all ranks
  /// have it. Buffers of different owners may share bytes.
  int64_t owner = kNoOwner;
  MemorySpace memory = MemorySpace::Device;
  int64_t offset = -1; ///< Bytes from the start of the arena; -1: not assigned.
  /// Row length and row pitch in bytes of a matrix with padded rows. Both are 0
  /// for any other buffer.
  int64_t rowBytes = 0, rowPitch = 0;
  /// Position in program order of the last op that reads any of the values
  /// placed in the buffer so far.
  int64_t lastUse = -1;

  int64_t getTotalBytes() const { return ringStride * (instances - 1) + bytes; }
};

/// The location of a value in a buffer. The value is stored as a matrix.
struct Place {
  int32_t buffer = -1;
  int64_t offset = 0;    ///< Bytes from the start of the buffer.
  int64_t stride = 0;    ///< Bytes added to `offset` per micro-batch.
  int64_t rowStride = 0; ///< Row pitch in elements.
};

struct Command {
  enum class Kind {
    Launch,
    Gemm,
    Fill,
    Copy,
    CopyShard,
    CopyStart,
    CollectiveStart,
    TransferWait
  };
  Kind kind;
  /// Launch: the dispatch. Gemm: the op with GemmOpInterface. CopyShard: the
  /// kiln.take_shard. CopyStart, CollectiveStart and TransferWait: the op that
  /// starts the transfer.
  mlir::Operation *op = nullptr;
  /// The locations in buffers that the command reads and writes, in this order:
  /// - Launch: operands, results
  /// - Gemm: left operand, right operand, the matrix that the GEMM stores,
  ///   epilogue operands, epilogue results
  /// - Fill: destination
  /// - Copy, CopyShard, CopyStart: source, destination
  /// - CollectiveStart: operands, results (for an all-reduce, the same places)
  /// - TransferWait: as for the command that starts the transfer
  llvm::SmallVector<Place, 6> places;
  /// Index of the buffer for scratch memory or the GEMM workspace, or -1.
  int32_t scratch = -1;
  mlir::Type type; ///< Fill, Copy, CopyStart: type of the tensor.
  /// An rt::Accumulation, for Gemm and for Launch of a kernel that accumulates
  /// in place: 0 overwrites the result, 1 adds to the result, and 2 overwrites
  /// the result in the first execution of its forward or backward segment and
  /// adds to it in all later ones.
  int64_t beta = 0;
  /// A segment is executed once for each micro-batch. `when` says in which of
  /// these executions the command is executed. A command outside of
  /// micro-batches has the value Always.
  rt::When when = rt::When::Always;

  /// Returns true if the command starts an asynchronous transfer.
  bool startsTransfer() const {
    return kind == Kind::CopyStart || kind == Kind::CollectiveStart;
  }
  /// Calls `visit` for each buffer that the command reads or writes. A transfer
  /// accesses the same buffers at its start and at its wait. A buffer that is
  /// read and written counts as written.
  void forEachAccess(
      llvm::function_ref<void(int32_t buffer, bool writes)> visit) const;
};

struct Boundary {
  std::string name;
  Place place;
  mlir::Type type;
  /// Attribute `kiln.input` of an input. Null for an input without the
  /// attribute and for an output.
  InputAttr fact;
};

/// The micro-batches of a program: the commands of the forward segment are
/// [forward, backward), those of the backward segment [backward, end).
struct PlannedMicrobatches {
  MicrobatchesOp op; ///< Null if the program has none.
  int64_t forward = 0, backward = 0, end = 0;
};

struct ProgramPlan {
  ProgramOp program;
  std::vector<Buffer> buffers;
  std::vector<Command> commands;
  PlannedMicrobatches microbatches;
  std::vector<Boundary> inputs, outputs;
  llvm::DenseMap<mlir::Value, Place> places;

  /// Returns the range of commands, as the first and the last one, during which
  /// no other buffer may share bytes with `buffer`. This is the lifetime of
  /// `buffer`. If `buffer` has several instances, it is the forward and the
  /// backward segment, because instances for other micro-batches are live.
  std::pair<int64_t, int64_t> occupancyOf(const Buffer &buffer) const {
    if (buffer.instances > 1)
      return {microbatches.forward, microbatches.end - 1};
    return {buffer.first, buffer.last};
  }
};

/// Callbacks that compute the sizes of scratch buffers, in bytes.
struct ScratchBytes {
  /// Returns the scratch bytes of a dispatch for all threads together, given
  /// the locations of its operands and results.
  llvm::function_ref<int64_t(DispatchOp, llvm::ArrayRef<Place>)> ofDispatch;
  /// Returns the workspace bytes of a GEMM with or without an epilogue.
  llvm::function_ref<int64_t(GemmOpInterface)> ofGemm;
};

/// Builds the buffer plan of a program at the dispatched level. `states` lists
/// the states in the order that all programs use: buffer i of every plan stores
/// states[i]. Fails with a diagnostic if an op cannot be scheduled.
llvm::FailureOr<ProgramPlan> planBuffers(ProgramOp program,
                                         llvm::ArrayRef<StateOp> states,
                                         ScratchBytes scratchBytes,
                                         const TargetBackend &target,
                                         RowPrograms &rowPrograms);

/// Builds the buffer plans of all programs of a module at the dispatched level,
/// with scratch for `maxThreads` threads. Adds kernels to the module. Moves
/// each update after all other ops that read the state that it updates.
llvm::FailureOr<std::vector<ProgramPlan>> planPrograms(mlir::ModuleOp module,
                                                       int64_t maxThreads);

/// Returns the slot classes of the states of a module. The class Optimizer
/// includes master copies: parameters of which programs read a copy in a
/// narrower type.
llvm::SmallVector<rt::SlotClass>
slotClassesOf(llvm::ArrayRef<StateOp> states);

/// Returns a readable name of an op: the name of its location, followed by the
/// name of the op or, for a dispatch, the names of the ops in its body.
std::string describeOp(mlir::Operation *op);

} // namespace kiln

#endif // KILN_CONVERSION_KILNTOKILNRT_BUFFERPLAN_H
