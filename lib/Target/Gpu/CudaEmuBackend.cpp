//===- CudaEmuBackend.cpp - The target cuda-emu ---------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuBackend.h"

#include "kiln/Target/Gpu/Emulate.h"
#include "kiln/Target/Gpu/Targets.h"
#include "kiln/Target/Interface/TargetRegistry.h"

using namespace kiln;
using namespace kiln::gpu;

namespace {

/// Compiles kernels to host functions that run on the emulated device.
class CudaEmuCodeGenerator : public GpuCodeGenerator {
public:
  llvm::Error addHostFunctions(KernelModules modules) const override {
    return lowerForEmulation(modules.deviceCode, modules.hostCode);
  }

  llvm::ArrayRef<llvm::StringLiteral> getRuntimeArchives() const override {
    static constexpr llvm::StringLiteral archives[] = {"libKilnEmuRuntime.a",
                                                       "libKilnEmu.a"};
    return archives;
  }
};

class CudaEmuBackend : public GpuBackend {
public:
  llvm::StringRef getName() const override { return "cuda-emu"; }

  /// The emulated device computes GEMMs on the host. The results are
  /// bit-identical to those of the CPU target.
  kiln::abi::GemmKernel
  getGemmKernel(ElementType type,
                llvm::ArrayRef<std::string> features) const override {
    return hostGemmKernel(type, features);
  }

  const CodeGenerator &getCodeGenerator() const override {
    static const CudaEmuCodeGenerator generator;
    return generator;
  }
};

} // namespace

void kiln::registerCudaEmuTarget(mlir::DialectRegistry &registry) {
  registerTarget<CudaEmuBackend>(registry);
}
