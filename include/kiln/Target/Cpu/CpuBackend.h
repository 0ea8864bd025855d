//===- CpuBackend.h - The CPU target ----------------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_CPU_CPUBACKEND_H
#define KILN_TARGET_CPU_CPUBACKEND_H

#include "kiln/Target/Interface/TargetBackend.h"

#include "mlir/IR/DialectRegistry.h"

namespace kiln::cpu {

/// The target `cpu`, whose device is the host processor. The tiles of GEMMs are
/// computed by the kernel that hostGemmKernel() returns; all other kernels are
/// generated.
class CpuBackend : public TargetBackend {
public:
  llvm::StringRef getName() const override { return "cpu"; }
  FusionRules getFusionRules() const override;
  abi::GemmKernel
  getGemmKernel(ElementType type,
                llvm::ArrayRef<std::string> features) const override;
  int64_t getGemmWorkspaceBytes(const abi::GemmShape &shape, mlir::Type operand,
                                mlir::Type result,
                                int64_t maxThreads) const override;
  int64_t getScratchBytes(rt::KernelOp kernel,
                          int64_t maxThreads) const override;
  const CodeGenerator &getCodeGenerator() const override;
};

} // namespace kiln::cpu

namespace kiln {

void registerCpuTarget(mlir::DialectRegistry &registry);

} // namespace kiln

#endif // KILN_TARGET_CPU_CPUBACKEND_H
