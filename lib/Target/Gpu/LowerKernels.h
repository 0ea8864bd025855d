//===- LowerKernels.h - What both forms of a GPU kernel share ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gpu.func reaches the machine in two ways: as PTX, and as host code run by
// the emulated device. Both start here: the body moves into an llvm.func, and
// the few gpu operations of the kernel ABI become what a DeviceOps says.
// Everything else in a body (arith, scf, vector, llvm) is the same for both.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_LOWERKERNELS_H
#define KILN_LIB_TARGET_GPU_LOWERKERNELS_H

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "mlir/Dialect/LLVMIR/LLVMDialect.h"
#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/Diagnostics.h"
#include "llvm/Support/Error.h"

namespace kiln::gpu {

/// What the gpu operations of a kernel become.
class DeviceOps {
public:
  virtual ~DeviceOps() = default;
  virtual mlir::Value threadId(mlir::OpBuilder &b, mlir::Location loc) = 0;
  virtual mlir::Value blockId(mlir::OpBuilder &b, mlir::Location loc) = 0;
  /// The block's number in the second dimension of the grid.
  virtual mlir::Value memberId(mlir::OpBuilder &b, mlir::Location loc) = 0;
  virtual void barrier(mlir::OpBuilder &b, mlir::Location loc) = 0;
  /// `bits` (i32 or i64) of the lane `mode` and `offset` (i32) say.
  virtual mlir::Value shuffle(mlir::OpBuilder &b, mlir::Location loc,
                              mlir::gpu::ShuffleMode mode, mlir::Value bits,
                              mlir::Value offset) = 0;
};

/// The module's only gpu.module.
llvm::Expected<mlir::gpu::GPUModuleOp> findKernelModule(mlir::ModuleOp module);

/// The parameters of a kernel up to the immediates.
struct PointerParameters {
  unsigned count = 0;   ///< The table, or the pointers to global memory.
  bool isTable = false; ///< See MemberTable.h.
};

/// Checks the parameters: a table of members or pointers to global memory, then
/// i64 immediates of which the last is the number of units.
llvm::Expected<PointerParameters> checkSignature(mlir::gpu::GPUFuncOp kernel);

/// Replaces the gpu operations below `function`, whose body was cloned from a
/// gpu.func. Ids are 64 bit; shuffles are exactly the full warp's, by xor or
/// index, of scalars or vectors of at most 64 bits.
llvm::Error replaceGpuOps(mlir::LLVM::LLVMFuncOp function, DeviceOps &device);

/// Collects the diagnostics of a conversion as one line instead of printing
/// them.
class DiagnosticLine {
public:
  explicit DiagnosticLine(mlir::MLIRContext *context);
  llvm::Error error(const llvm::Twine &what) const;

private:
  std::string text;
  mlir::ScopedDiagnosticHandler handler;
};

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_LOWERKERNELS_H
