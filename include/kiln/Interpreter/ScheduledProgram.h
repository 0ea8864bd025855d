//===- ScheduledProgram.h - Commands on strided tensors ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Represents the commands of a scheduled program and evaluates single commands.
// A command reads and writes tensors that are stored in slots with a row pitch.
// A launch is evaluated on a copy of the ops of its kernel. The attributes of
// the copied ops have the values that the launch passes as arguments. A command
// that runs once per micro-batch is represented once; `executions` has the
// order in which the forward and backward segments of the micro-batches run.
// runScheduled() runs whole programs in an arena; checkTrace() evaluates single
// commands of a compiled run.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_SCHEDULEDPROGRAM_H
#define KILN_INTERPRETER_SCHEDULEDPROGRAM_H

#include "kiln/Abi/SegmentOrder.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Interpreter/Interpreter.h"

#include <memory>
#include <optional>

namespace kiln {

/// The location of a tensor. All rows have the same pitch, also across the
/// matrices of a batch.
struct SlotTensor {
  unsigned slot = 0; ///< Index in ScheduledProgram::slots.
  /// Bytes from the start of the slot. If a slot has one instance for each
  /// micro-batch in flight, bytes from the start of the instance.
  int64_t offset = 0;
  /// Bytes that are added to the offset per micro-batch.
  int64_t microbatchStride = 0;
  int64_t rowStride = 0; ///< Row pitch in elements.
  mlir::RankedTensorType type;

  int64_t elementBytes() const { return kiln::elementBytes(type); }
  bool isDense() const {
    return rowStride == getColumnCount(type) || getRowCount(type) == 1;
  }
  /// Returns true if both tensors are in the same slot and have bytes in common
  /// for the same micro-batch.
  bool overlaps(const SlotTensor &other) const;
  /// Returns the number of bytes from the first element to the end of the last
  /// one.
  int64_t extent() const {
    if (type.getNumElements() == 0)
      return 0;
    return ((getRowCount(type) - 1) * rowStride + getColumnCount(type)) *
           elementBytes();
  }
};

struct ScheduledCommand {
  enum class Kind {
    Launch,
    Gemm,
    Fill,
    Copy,
    CopyShard,
    CopyStart,
    CollectiveStart,
    Wait
  };
  Kind kind;
  mlir::Operation *op;
  llvm::SmallVector<SlotTensor, 4> operands, results;
  int scratch = -1; ///< Index of the slot for scratch memory, or -1.
  /// Index of the operand to which a result is added, or -1. In executions in
  /// which the command does not read this operand (see readsAccumulated()),
  /// zeros replace the operand.
  int accumulated = -1;
  /// The ops to evaluate; null for fills and copies.
  mlir::Block *body = nullptr;
  /// CollectiveStart: what the ranks compute. Result i is computed from operand
  /// i.
  std::optional<Collective> collective = std::nullopt;
};

/// A program whose references to slots and kernels are resolved and valid.
class ScheduledProgram {
public:
  ScheduledProgram(ScheduledProgram &&) = default;
  ScheduledProgram &operator=(ScheduledProgram &&) = default;

  /// Builds the commands of `program`. Emits a diagnostic if the program is
  /// invalid.
  static mlir::FailureOr<ScheduledProgram> build(rt::ProgramOp program);

  rt::ProgramOp op;
  llvm::SmallVector<rt::SlotOp> slots;
  /// The commands in the order of rt::commandsOf(), and their executions.
  std::vector<ScheduledCommand> commands;
  std::vector<rt::SegmentExecution> executions;
  std::optional<rt::MicrobatchCommands> microbatches;
  struct Boundary {
    std::string name;
    SlotTensor tensor;
  };
  std::vector<Boundary> inputs, outputs;

  /// Returns the address of a slot, or of its first instance, in an arena in
  /// which the host arena follows the device arena, as in the interpreter.
  int64_t addressOf(rt::SlotOp slot) const {
    return static_cast<int64_t>(slot.getOffset()) +
           (slot.getMemory() == MemorySpace::Host ? hostBegin : 0);
  }
  /// Return the address of a slot's instance for the micro-batch of `run`, and
  /// of a tensor in this instance.
  int64_t addressOf(rt::SlotOp slot, const abi::SegmentRun &run) const {
    return addressOf(slot) + slot.getRingStride() * run.slot;
  }
  int64_t addressOf(const SlotTensor &tensor,
                    const abi::SegmentRun &run) const {
    return addressOf(slots[tensor.slot], run) + tensor.offset +
           tensor.microbatchStride * run.microbatch;
  }
  int64_t hostBegin = 0;
  /// Granularity in bytes of the accesses of commands: 1 if a view of one-byte
  /// elements has padded rows, an odd offset or an odd stride; otherwise 2.
  int64_t unit = 2;

private:
  friend class ScheduledProgramBuilder;
  ScheduledProgram() = default;
  /// Bodies that are not in the module: the bodies of GEMMs, and copies of
  /// kernel bodies to which the arguments of a launch are bound.
  std::vector<std::unique_ptr<mlir::Region>> bodies;
};

/// Returns the run that `execution` describes. Commands outside of
/// micro-batches are executed once, so both `isFirst` and `isLast` of their run
/// are true.
abi::SegmentRun runOf(const rt::SegmentExecution &execution);

/// Returns true if the command adds a result to one of its operands (see
/// ScheduledCommand::accumulated), and reads this operand in this run.
bool readsAccumulated(const ScheduledCommand &command,
                      const abi::SegmentRun &run);

/// Evaluates a launch or GEMM on `operands`, which have evaluation types of
/// `interpreter`, and returns the results of the command.
mlir::FailureOr<llvm::SmallVector<TensorHandle>>
evaluateCommand(const Interpreter &interpreter, const ScheduledCommand &command,
                llvm::ArrayRef<TensorHandle> operands);

} // namespace kiln

#endif // KILN_INTERPRETER_SCHEDULEDPROGRAM_H
