//===- LowerKernels.h - Common lowering of GPU kernels ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A gpu.func is compiled to PTX and to host code for the emulated device. Both
// lowerings start here: the body moves into an llvm.func, and a DeviceOps
// object replaces the gpu operations of the kernel ABI. All other operations of
// a body (arith, scf, vector, llvm) are the same for both.
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

/// Emits the replacements of the gpu operations of a kernel.
class DeviceOps {
public:
  virtual ~DeviceOps() = default;
  virtual mlir::Value threadId(mlir::OpBuilder &b, mlir::Location loc) = 0;
  virtual mlir::Value blockId(mlir::OpBuilder &b, mlir::Location loc) = 0;
  /// Returns the block index in the second dimension of the grid.
  virtual mlir::Value memberId(mlir::OpBuilder &b, mlir::Location loc) = 0;
  virtual void barrier(mlir::OpBuilder &b, mlir::Location loc) = 0;
  /// Returns the value of `bits` (i32 or i64) in the lane selected by `mode`
  /// and `offset` (i32).
  virtual mlir::Value shuffle(mlir::OpBuilder &b, mlir::Location loc,
                              mlir::gpu::ShuffleMode mode, mlir::Value bits,
                              mlir::Value offset) = 0;
};

/// Returns the only gpu.module of a module.
llvm::Expected<mlir::gpu::GPUModuleOp> findKernelModule(mlir::ModuleOp module);

/// The parameters of a kernel that precede the immediates: pointers, or one
/// table with the arguments of all launches of a group (MemberTable.h).
struct PointerParameters {
  unsigned count = 0;   ///< 1 for a table, else the number of pointers.
  bool isTable = false; ///< True for a table.
};

/// Checks that the parameters are a table or pointers to global memory,
/// followed by i64 immediates. The last immediate is the number of work units.
llvm::Expected<PointerParameters> checkSignature(mlir::gpu::GPUFuncOp kernel);

/// Replaces the gpu operations in `function`, whose body was cloned from a
/// gpu.func. Returns an error for a gpu or nvvm operation that is not
/// supported, such as a shuffle of part of a warp, of a mode other than xor and
/// idx, or of more than 64 bits.
llvm::Error replaceGpuOps(mlir::LLVM::LLVMFuncOp function, DeviceOps &device);

/// Collects the diagnostics of a conversion into one line instead of printing
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
