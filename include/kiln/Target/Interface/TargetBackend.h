//===- TargetBackend.h - Interface of a compilation target ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The passes, the planner and the driver do not depend on the names of targets.
// Instead, they query the backend of the module's target. A backend has no
// state, so the threads of a context share it.
//
// This header includes no header of an emitter or of a target, because the
// transforms and the scheduler include it. Targets implement the interfaces
// that it declares. See docs/design/how-to-add-a-target.md.
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

/// The ops that one kernel, or one call of a vendor library, can fuse.
struct FusionRules {
  /// The epilogues of GEMMs. Tiles: GEMMs are computed tile by tile, and row
  /// ops can run on each tile once it is complete (dispatches of the family
  /// 'gemm'). Vendor: the vendor library that computes GEMMs also adds biases,
  /// applies GELU and computes the gradients of biases (the ops of
  /// KilnVendor.h).
  EpilogueKind epilogues = EpilogueKind::None;
  /// True if a vendor library may compute attention instead of the generated
  /// kernel. Applies only to modules with the attribute `kiln.attention`.
  bool libraryAttention = false;
};

/// Rules for the launches of a program.
struct LaunchRules {
  /// True if commands on device memory and commands on host memory run on
  /// separate queues, which overlap. Each launch in the program file then lists
  /// the sizes in bytes of the memory ranges that its arguments occupy.
  bool overlap = false;
  /// True if the runtime can run a group of launches of one kernel as one
  /// launch.
  bool groups = false;
};

/// Returns the fastest GEMM kernel for operands of `type` on a processor that
/// has `features`, which are named as in LLVM.
abi::GemmKernel hostGemmKernel(ElementType type,
                               llvm::ArrayRef<std::string> features);

class TargetBackend {
public:
  virtual ~TargetBackend();

  /// The name used in --target and in the attribute `kiln.target`.
  virtual llvm::StringRef getName() const = 0;

  //===--------------------------------------------------------------------===//
  // Computation and fusion
  //===--------------------------------------------------------------------===//

  /// Returns the reason why the target does not support `type`, or an empty
  /// string if it does.
  virtual llvm::StringRef whyUnsupported(ElementType type) const { return {}; }

  virtual FusionRules getFusionRules() const { return {}; }

  /// Returns true if the ops that form `program` may be fused into one kernel.
  virtual bool mayFuse(const row::RowProgram &program) const { return true; }

  /// The loss is computed in chunks of rows of logits. Returns the minimum
  /// number of logits per chunk on a device with `deviceBytes` bytes of memory.
  /// The number does not depend on the memory budget, because the chunks
  /// determine the order of sums and thus the results.
  virtual int64_t getLogitsPerChunk(int64_t deviceBytes) const { return 0; }

  /// Returns the kernel that computes the tiles of GEMMs with operands of
  /// `type` if the processor of the host has the given features. Targets whose
  /// GEMMs do not run on the host return Blas.
  virtual abi::GemmKernel
  getGemmKernel(ElementType type, llvm::ArrayRef<std::string> features) const {
    return abi::GemmKernel::Blas;
  }

  //===--------------------------------------------------------------------===//
  // Memory
  //===--------------------------------------------------------------------===//

  /// Returns the alignment in bytes of the slots of a class, a power of two.
  /// The default of 64 suits vector loads and cache lines.
  virtual int64_t getAlignment(rt::SlotClass slotClass) const { return 64; }

  /// Returns the alignment in bytes to which matrix rows may be padded: a
  /// multiple of the size of each element type, or 1 if the target does not pad
  /// rows.
  virtual int64_t getRowAlignment() const { return 1; }

  /// Returns the workspace bytes of a GEMM for all host threads together.
  /// `operand` and `result` are the element types of its matrices.
  virtual int64_t getGemmWorkspaceBytes(const abi::GemmShape &shape,
                                        mlir::Type operand, mlir::Type result,
                                        int64_t maxThreads) const = 0;

  /// Returns the scratch bytes that a launch of `kernel` needs in addition to
  /// its arguments, for all host threads together. Includes the workspace of a
  /// vendor library that computes attention.
  virtual int64_t getScratchBytes(rt::KernelOp kernel,
                                  int64_t maxThreads) const = 0;

  /// Returns the vendor library call that may replace launches of `kernel`, or
  /// std::nullopt if there is none.
  virtual std::optional<abi::VendorAttention>
  getLibraryAttention(rt::KernelOp kernel) const {
    return std::nullopt;
  }

  //===--------------------------------------------------------------------===//
  // Execution
  //===--------------------------------------------------------------------===//

  virtual LaunchRules getLaunchRules() const { return {}; }

  /// Returns the name of the machine file that plans use if --machine is not
  /// given. An empty name means the machine that kilnc runs on.
  virtual llvm::StringRef getDefaultMachine() const { return {}; }

  /// Returns the code generator of the target.
  virtual const CodeGenerator &getCodeGenerator() const = 0;
};

} // namespace kiln

#endif // KILN_TARGET_INTERFACE_TARGETBACKEND_H
