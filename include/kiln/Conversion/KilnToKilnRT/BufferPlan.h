//===- BufferPlan.h - Which buffer every value lives in ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The light form of one dispatched program: buffers, the place of every value
// in a buffer, and commands in order. Sharing is decided here, offsets later:
//
//   view     its source's place, moved
//   concat   operands are placed inside the result, so their producers write
//            there
//   tie      a result takes its operand's buffer: always where the op says so
//            (updates, accumulation), and where the row program allows it and
//            the operand dies
//   copy     between device and host: source and copy live from its beginning
//            to its wait; the copy of a state's new value is the state's buffer
//   product  with an epilogue: lies where one of the epilogue's results will
//   rows     of a matrix that a vendor library multiplies begin at multiples of
//            the target's row alignment, if all ops that write and read the
//            matrix can step over the padding
//
//===----------------------------------------------------------------------===//

#ifndef KILN_CONVERSION_KILNTOKILNRT_BUFFERPLAN_H
#define KILN_CONVERSION_KILNTOKILNRT_BUFFERPLAN_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"
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
  /// Commands that touch it, loops included as wholes where it crosses them.
  int64_t first = INT64_MAX, last = -1;
  StateOp state; ///< null unless it is a state's
  MemorySpace memory = MemorySpace::Device;
  int64_t offset = -1; ///< in the arena, once assigned
  /// Of a matrix with padded rows: bytes of a row, and from one to the next.
  int64_t rowBytes = 0, rowPitch = 0;
  /// Program order of the last op that reads a value placed here so far.
  int64_t lastUse = -1;
};

/// Where a value is: rank-2 (rows, columns) addressing inside a buffer.
struct Place {
  int32_t buffer = -1;
  int64_t offset = 0;     ///< bytes
  int64_t loopStride = 0; ///< bytes per iteration of the enclosing loop
  int64_t rowStride = 0;  ///< elements
};

struct Command {
  enum class Kind {
    Launch,
    Gemm,
    Fill,
    Copy,
    CopyStart,
    CopyWait,
    LoopBegin,
    LoopEnd
  };
  Kind kind;
  /// Launch: dispatch; Gemm: an op with GemmOpInterface; CopyStart, CopyWait:
  /// the copy's beginning.
  mlir::Operation *op = nullptr;
  /// Operands, results; copies: from, to; Gemm: left, right, matrix, operands
  /// and results of the epilogue.
  llvm::SmallVector<Place, 6> places;
  int32_t scratch = -1; ///< buffer; Gemm: its workspace
  mlir::Type type;      ///< Fill, Copy, CopyStart: of the tensor
  int64_t count = 0;    ///< LoopBegin
  /// Gemm: 0, 1, or 2 = by iteration. Launch of a scatter: likewise.
  int64_t beta = 0;
};

struct Boundary {
  std::string name;
  Place place;
  mlir::Type type;
  InputAttr fact; ///< The declaration of a data input, or null.
};

struct ProgramPlan {
  ProgramOp program;
  std::vector<Buffer> buffers;
  std::vector<Command> commands;
  std::vector<Boundary> inputs, outputs;
  llvm::DenseMap<mlir::Value, Place> places;
};

/// What commands need to work in.
struct ScratchBytes {
  /// Scratch of a dispatch, given the places of its operands and results, for
  /// all threads together.
  llvm::function_ref<int64_t(DispatchOp, llvm::ArrayRef<Place>)> ofDispatch;
  /// The workspace of a GEMM, with an epilogue or without.
  llvm::function_ref<int64_t(GemmOpInterface)> ofGemm;
};

/// Builds the plan of a dispatched program. `states`: the program-independent
/// order of states; buffer i of the plan is state i's.
llvm::FailureOr<ProgramPlan> planBuffers(ProgramOp program,
                                         llvm::ArrayRef<StateOp> states,
                                         ScratchBytes scratchBytes,
                                         const TargetBackend &target,
                                         RowPrograms &rowPrograms);

/// The plans of all programs of a dispatched module, with the scratch that
/// `maxThreads` threads need. Adds kernels to the module and moves updates.
llvm::FailureOr<std::vector<ProgramPlan>> planPrograms(mlir::ModuleOp module,
                                                       int64_t maxThreads);

/// The class of a state's slot.
rt::SlotClass slotClassOf(StateOp state);

/// The name of an op for people: its location's name and what it does.
std::string describeOp(mlir::Operation *op);

} // namespace kiln

#endif // KILN_CONVERSION_KILNTOKILNRT_BUFFERPLAN_H
