//===- CpuBackend.cpp - The CPU target ------------------------------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Cpu/CpuBackend.h"

#include "kiln/Target/Cpu/KernelEmitters.h"
#include "kiln/Target/Interface/CodeGenerator.h"
#include "kiln/Target/Interface/TargetRegistry.h"

#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln::cpu;
using namespace kiln;

namespace {

class CpuCodeGenerator : public CodeGenerator {
public:
  CodeTraits getTraits() const override {
    CodeTraits traits;
    traits.deviceIsHost = true;
    return traits;
  }

  FailureOr<LaunchGeometry> emitKernel(rt::KernelOp kernel,
                                       KernelModules modules) const override {
    FailureOr<KernelLaunch> launch =
        cpu::emitKernel(modules.deviceCode, kernel);
    if (failed(launch))
      return failure();
    LaunchGeometry geometry;
    geometry.units = launch->units;
    geometry.grain = launch->grain;
    geometry.scratchBytes = launch->scratchBytes;
    return geometry;
  }
};

} // namespace

FusionRules CpuBackend::getFusionRules() const {
  FusionRules rules;
  rules.epilogues = EpilogueKind::Tiles;
  return rules;
}

GemmKernel CpuBackend::getGemmKernel(ElementType type,
                                     ArrayRef<std::string> features) const {
  return hostGemmKernel(type, features);
}

/// Each thread needs memory for blocks of the operands: GemmKernel::Avx512 and
/// Amx pack the blocks, and for a BLAS, which does not support narrow floats,
/// the blocks of narrow operands are widened.
int64_t CpuBackend::getGemmWorkspaceBytes(const GemmShape &shape, Type operand,
                                          Type result,
                                          int64_t maxThreads) const {
  return maxThreads *
         llvm::alignTo(tileScratchBytes(shape, elementTypeOf(operand),
                                        elementTypeOf(result)),
                       getAlignment(rt::SlotClass::Workspace));
}

int64_t CpuBackend::getScratchBytes(rt::KernelOp kernel,
                                    int64_t maxThreads) const {
  return maxThreads * llvm::alignTo(cpu::scratchBytes(kernel),
                                    getAlignment(rt::SlotClass::Workspace));
}

const CodeGenerator &CpuBackend::getCodeGenerator() const {
  static const CpuCodeGenerator generator;
  return generator;
}

void kiln::registerCpuTarget(DialectRegistry &registry) {
  registerTarget<CpuBackend>(registry);
}
