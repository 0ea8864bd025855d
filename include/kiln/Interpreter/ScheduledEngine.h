//===- ScheduledEngine.h - Scheduled programs in an arena -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs scheduled programs command by command in one arena of bytes. Values are
// stored in the types of the program, and ops are evaluated by their reference
// semantics. Shadow memory stores, for each unit of 1 or 2 bytes of the arena,
// the slot through which the unit was last written and the micro-batch that
// wrote it. The following faults of a plan are errors:
//
//   - two slots that share bytes while both are live
//   - a command that accesses a slot outside of its lifetime
//   - a read of bytes that were not written, or that were overwritten through
//     another slot; if the lifetime of the slot that is read is within a
//     micro-batch, also a read of bytes that another micro-batch wrote
//   - a state whose bytes were overwritten through another slot
//   - a race with a copy between device and host: before the wait for the copy,
//     the destination must not be accessed and the source must not change
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_SCHEDULEDENGINE_H
#define KILN_INTERPRETER_SCHEDULEDENGINE_H

#include "kiln/Interpreter/InterpreterEngine.h"
#include "kiln/Interpreter/ScheduledProgram.h"

namespace kiln {

/// The bytes that all programs share: the device arena, followed by the host
/// arena.
struct InterpretedArena {
  std::vector<char> bytes;
  /// Size in bytes of the units whose last write is recorded: the minimum of
  /// ScheduledProgram::unit over all programs.
  int64_t unit = 2;
  /// The last write of a unit.
  struct Writer {
    /// The slot of the running program through which the unit was written:
    ///   i + 1   the slot with the index i
    ///   0       the unit was not written
    ///   -1      a copy to the unit is in progress
    int32_t slot = 0;
    /// The micro-batch that wrote the unit if the lifetime of the slot is
    /// within a micro-batch, otherwise -1.
    int32_t microbatch = -1;

    bool operator==(const Writer &other) const {
      return slot == other.slot && microbatch == other.microbatch;
    }
    bool operator!=(const Writer &other) const { return !(*this == other); }
  };
  std::vector<Writer> writers; ///< Indexed by unit of memory.
};

/// Runs a program in `arena`, which contains the states and inputs of the
/// program. Emits a diagnostic on failure.
mlir::LogicalResult runScheduled(const Interpreter &interpreter,
                                 const ScheduledProgram &program,
                                 InterpretedArena &arena);

/// Load and store a tensor of a slot. `bytes` points to the tensor's first
/// element for the micro-batch that is executed.
HostTensor loadTensor(const SlotTensor &tensor, const char *bytes);
void storeTensor(const SlotTensor &tensor, const HostTensor &value,
                 char *bytes);

class ScheduledEngine : public ReferenceEngine {
public:
  /// Returns true if a module is on the scheduled level.
  static bool accepts(mlir::ModuleOp module);
  static Result<std::unique_ptr<ScheduledEngine>> create(mlir::ModuleOp module);

  const runtime::Description &description() const override {
    return description_;
  }
  char *stateData(size_t state) override {
    return arena.bytes.data() + stateOffsets[state];
  }
  char *inputData(size_t program, size_t input) override {
    return placeOf(programs[program], programs[program].inputs[input]);
  }
  char *outputData(size_t program, size_t output) override {
    return outputs[program][output].data();
  }
  Status join(runtime::World &world) override;
  Status run(size_t program) override;
  TensorHandle stateTensor(size_t state) override;

private:
  /// Sets which states exist on the rank with the index `rank`.
  void selectStates(int64_t rank);
  explicit ScheduledEngine(mlir::ModuleOp module);
  Status prepare();
  char *placeOf(ScheduledProgram &program,
                const ScheduledProgram::Boundary &boundary) {
    rt::SlotOp slot = program.slots[boundary.tensor.slot];
    return arena.bytes.data() + program.addressOf(slot) +
           boundary.tensor.offset;
  }

  Interpreter interpreter;
  runtime::Description description_;
  std::vector<ScheduledProgram> programs;
  std::vector<int64_t> stateOffsets;
  /// Copies of the outputs of every program. They are needed because the next
  /// run may overwrite the outputs in the arena.
  std::vector<std::vector<std::vector<char>>> outputs;
  InterpretedArena arena;
};

} // namespace kiln

#endif // KILN_INTERPRETER_SCHEDULEDENGINE_H
