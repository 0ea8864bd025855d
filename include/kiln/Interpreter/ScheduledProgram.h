//===- ScheduledProgram.h - Commands as strided tensors ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The commands of a scheduled program, and what one of them computes. A command
// reads and writes tensors that lie in slots with a distance between rows; what
// it computes is what the ops of its kernel do, whose immediates stand for
// attributes. Two users: ArenaMachine, which runs whole programs in an arena,
// and TraceCheck, which repeats single commands of a compiled run.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_SCHEDULEDPROGRAM_H
#define KILN_INTERPRETER_SCHEDULEDPROGRAM_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Interpreter/Interpreter.h"

#include <memory>

namespace kiln {

/// Bytes of the finest places that commands refer to: of a bf16 element.
inline constexpr int64_t arenaUnit = 2;

/// Where a tensor is. Matrix products leave gaps between matrices, too.
struct SlotTensor {
  unsigned slot = 0;                  ///< Index in ScheduledProgram::slots.
  int64_t offset = 0, loopStride = 0; ///< Bytes.
  int64_t rowStride = 0;              ///< Elements.
  mlir::RankedTensorType type;

  int64_t elementBytes() const { return kiln::elementBytes(type); }
  bool isDense() const {
    return rowStride == getColumnCount(type) || getRowCount(type) == 1;
  }
  /// Whether the two have bytes of one slot in common, in the same iteration.
  bool overlaps(const SlotTensor &other) const;
  /// Bytes of the slot from the first to behind the last element.
  int64_t extent() const {
    if (type.getNumElements() == 0)
      return 0;
    return ((getRowCount(type) - 1) * rowStride + getColumnCount(type)) *
           elementBytes();
  }
};

/// One command; a loop is its two ends.
struct ScheduledCommand {
  enum class Kind {
    Launch,
    Gemm,
    Fill,
    Copy,
    CopyStart,
    Wait,
    LoopBegin,
    LoopEnd
  };
  Kind kind;
  mlir::Operation *op;
  llvm::SmallVector<SlotTensor, 4> operands, results;
  int scratch = -1; ///< A slot.
  /// The operand with what a result accumulates onto, or -1: when it is not
  /// read in an iteration, it counts as zeros.
  int accumulated = -1;
  int64_t count = 0; ///< Iterations of the loop that begins.
  /// The ops to evaluate; fills and copies have none.
  mlir::Block *body = nullptr;
};

/// A program whose commands refer to nothing that is not there.
class ScheduledProgram {
public:
  ScheduledProgram(ScheduledProgram &&) = default;
  ScheduledProgram &operator=(ScheduledProgram &&) = default;

  /// Reads `program`; a diagnostic says what is wrong with it.
  static mlir::FailureOr<ScheduledProgram> build(rt::ProgramOp program);

  rt::ProgramOp op;
  llvm::SmallVector<rt::SlotOp> slots;
  std::vector<ScheduledCommand> commands;
  struct Boundary {
    std::string name;
    SlotTensor tensor;
  };
  std::vector<Boundary> inputs, outputs;

  /// Where a slot begins if the host's arena follows the device's, as it does
  /// for interpreters.
  int64_t addressOf(rt::SlotOp slot) const {
    return static_cast<int64_t>(slot.getOffset()) +
           (slot.getMemory() == MemorySpace::Host ? hostBegin : 0);
  }
  int64_t hostBegin = 0;

private:
  friend class ScheduledProgramBuilder;
  ScheduledProgram() = default;
  /// Bodies that the module does not have: matrix products, and kernels with
  /// the immediates of one launch.
  std::vector<std::unique_ptr<mlir::Region>> bodies;
};

/// True when the command reads operand `accumulated` in this iteration.
bool readsAccumulated(const ScheduledCommand &command, int64_t iteration);

/// The results of a launch or matrix product on `operands`, whose types are
/// evaluation types of `interpreter`.
mlir::FailureOr<llvm::SmallVector<TensorHandle>>
evaluateCommand(const Interpreter &interpreter, const ScheduledCommand &command,
                llvm::ArrayRef<TensorHandle> operands);

} // namespace kiln

#endif // KILN_INTERPRETER_SCHEDULEDPROGRAM_H
