//===- GpuBackend.h - Common part of the targets cuda and cuda-emu --------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The targets cuda and cuda-emu use the same plans and the same kernels. They
// differ in the device that runs the kernels and in the vendor libraries.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_TARGET_GPU_GPUBACKEND_H
#define KILN_LIB_TARGET_GPU_GPUBACKEND_H

#include "kiln/Target/Interface/CodeGenerator.h"
#include "kiln/Target/Interface/TargetBackend.h"

namespace kiln::gpu {

class GpuBackend : public TargetBackend {
public:
  llvm::StringRef whyUnsupported(ElementType type) const override;
  FusionRules getFusionRules() const override;
  bool mayFuse(const row::RowProgram &program) const override;
  int64_t getLogitsPerChunk(int64_t deviceBytes) const override;
  int64_t getRowAlignment() const override;
  int64_t getGemmWorkspaceBytes(const abi::GemmShape &shape, mlir::Type operand,
                                mlir::Type result,
                                int64_t maxThreads) const override;
  int64_t getScratchBytes(rt::KernelOp kernel,
                          int64_t maxThreads) const override;
  LaunchRules getLaunchRules() const override;
};

class GpuCodeGenerator : public CodeGenerator {
public:
  CodeTraits getTraits() const override;
  llvm::FailureOr<LaunchGeometry>
  emitKernel(rt::KernelOp kernel, KernelModules modules) const override;
  llvm::Expected<std::string> compileToPtx(mlir::ModuleOp device,
                                           llvm::StringRef chip) const override;
  llvm::ArrayRef<llvm::StringLiteral> getDefaultChips() const override;
  llvm::Error checkChip(llvm::StringRef chip) const override;
};

} // namespace kiln::gpu

#endif // KILN_LIB_TARGET_GPU_GPUBACKEND_H
