//===- TargetBackend.h - Everything in which targets differ -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Passes, the planner and the driver do not know the names of targets. They ask
// the backend of the module's target for the one fact that they need. A backend
// has no state, so the threads of a context share it.
//
// This header includes no emitter and no target: transforms and the scheduler
// include it, targets implement it. docs/design/how-to-add-a-target.md shows
// how.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_INTERFACE_TARGETBACKEND_H
#define KILN_TARGET_INTERFACE_TARGETBACKEND_H

#include "kiln/Abi/GemmWorkspace.h"
#include "kiln/Abi/VendorAttention.h"
#include "kiln/Dialect/KilnRT/IR/KilnRT.h"
#include "kiln/Support/ElementType.h"

#include "llvm/ADT/StringRef.h"

#include <optional>

namespace kiln {
namespace row {
struct RowProgram;
} // namespace row

class CodeGenerator;

/// What one kernel, or one call of a vendor library, may compute together.
struct FusionRules {
  /// GEMMs are computed tile by tile, and row ops may run on a tile as soon as
  /// it is complete (dispatches of family gemm).
  bool tileEpilogues = false;
  /// The vendor library that computes GEMMs also adds biases, applies GELU and
  /// sums up the gradients of biases (the ops of KilnLibrary.h).
  bool vendorEpilogues = false;
  /// A vendor library may compute attention instead of the generated kernel,
  /// if the module asks for it by `kiln.attention`.
  bool libraryAttention = false;
};

/// How the runtime starts the launches of a program.
struct LaunchRules {
  /// Commands in device memory and commands in host memory are on queues of
  /// their own, which overlap, so that a launch has to state which bytes it
  /// accesses.
  bool overlap = false;
  /// The runtime starts a group of launches of one kernel as one launch.
  bool groups = false;
};

class TargetBackend {
public:
  virtual ~TargetBackend();

  /// The name in --target and in `kiln.target`.
  virtual llvm::StringRef getName() const = 0;

  //===--------------------------------------------------------------------===//
  // What is computed, and in which kernels
  //===--------------------------------------------------------------------===//

  /// States why the target does not compute in `type`; empty if it does.
  virtual llvm::StringRef whyUnsupported(ElementType type) const { return {}; }

  virtual FusionRules getFusionRules() const { return {}; }

  /// Returns true if several ops whose union is `program` may be one kernel.
  virtual bool mayFuse(const row::RowProgram &program) const { return true; }

  /// Elements that a chunk of the logits should have at least on a device with
  /// so much memory. The chunks fix an order of sums, so no memory budget
  /// changes them.
  virtual int64_t getLogitsPerChunk(int64_t deviceBytes) const { return 0; }

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  /// Bytes that the offsets of slots of a class are multiples of, a power of
  /// two. Vector loads and cache lines are 64 bytes.
  virtual int64_t getAlignment(rt::SlotClass slotClass) const { return 64; }

  /// Bytes that the rows of a matrix begin at multiples of where padding is
  /// possible and useful: a multiple of the size of each element type, or 1 if
  /// matrices are dense.
  virtual int64_t getRowAlignment() const { return 1; }

  /// Bytes of the workspace of a GEMM for all threads of the host together.
  /// `operand` and `result` are the element types of its matrices.
  virtual int64_t getGemmWorkspaceBytes(const abi::GemmShape &shape,
                                        mlir::Type operand, mlir::Type result,
                                        int64_t maxThreads) const = 0;

  /// Bytes of memory that a launch of `kernel` works in beside its arguments,
  /// for all threads of the host together. Includes the workspace of a library
  /// that computes attention.
  virtual int64_t getScratchBytes(rt::KernelOp kernel,
                                  int64_t maxThreads) const = 0;

  /// Describes the call of a vendor library that may replace launches of
  /// `kernel`; nothing if there is none.
  virtual std::optional<abi::VendorAttention>
  getLibraryAttention(rt::KernelOp kernel) const {
    return std::nullopt;
  }

  //===--------------------------------------------------------------------===//
  // Execution
  //===--------------------------------------------------------------------===//

  virtual LaunchRules getLaunchRules() const { return {}; }

  /// The machine whose figures plans are made with unless --machine names
  /// another; empty for the machine that kilnc runs on.
  virtual llvm::StringRef getDefaultMachine() const { return {}; }

  /// Makes code of the target's kernels.
  virtual const CodeGenerator &getCodeGenerator() const = 0;
};

} // namespace kiln

#endif // KILN_TARGET_INTERFACE_TARGETBACKEND_H
