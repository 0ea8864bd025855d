//===- GpuBackend.cpp - Common part of the targets cuda and cuda-emu ------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "GpuBackend.h"

#include "kiln/Dialect/Kiln/IR/RowProgram.h"
#include "kiln/Target/Gpu/KernelEmitters.h"
#include "kiln/Target/Gpu/Ptx.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"
#include "llvm/Support/MathExtras.h"

using namespace mlir;
using namespace kiln::abi;
using namespace kiln::gpu;
using namespace kiln;

StringRef GpuBackend::whyUnsupported(ElementType type) const {
  return type == ElementType::F64
             ? "GPU kernels have no elementary functions of f64"
             : "";
}

/// The vendor library computes a whole GEMM, so row ops cannot be applied to
/// the tiles of its result.
FusionRules GpuBackend::getFusionRules() const {
  FusionRules rules;
  rules.epilogues = EpilogueKind::Vendor;
  return rules;
}

/// Returns false if the program reduces a single row and loads sums of slices,
/// that is, sums over the leading dimension of an operand. A GPU assigns few
/// threads to the row, and each thread would add the slices of many columns
/// sequentially.
bool GpuBackend::mayFuse(const row::RowProgram &program) const {
  auto isReduction = [](const row::Node &node) {
    return node.kind == row::Kind::ReduceSum ||
           node.kind == row::Kind::ReduceMax;
  };
  auto isSumOfSlices = [](const row::Node &node) {
    return node.kind == row::Kind::Load &&
           node.access == row::Access::SumOfSlices;
  };
  return program.rows != 1 || !llvm::any_of(program.nodes, isReduction) ||
         !llvm::any_of(program.nodes, isSumOfSlices);
}

/// Chunks of logits should not be small: every chunk reads and writes the whole
/// gradient of the classifier, and a GEMM with few rows does not fill a GPU. In
/// bf16, the logits of a chunk take 1/512 of the device memory.
int64_t GpuBackend::getLogitsPerChunk(int64_t deviceBytes) const {
  return deviceBytes / 512 / 2;
}

/// Returns the size of a memory sector of a GPU, to which rows are aligned. The
/// fast kernels of the vendor library need only half of this alignment.
int64_t GpuBackend::getRowAlignment() const { return 32; }

/// Returns the size of one workspace for any `maxThreads`, since one call of
/// the vendor library computes the whole GEMM. The workspace does not depend on
/// the host, so that the plans for a GPU and for the emulated device are equal.
/// It is large enough for the emulated device with GemmKernel::Blas; for other
/// GEMM kernels, the emulated device has scratch memory of its own.
int64_t GpuBackend::getGemmWorkspaceBytes(const GemmShape &shape, Type operand,
                                          Type result,
                                          int64_t maxThreads) const {
  int64_t bytes = gemmWorkspaceBytes(shape);
  if (!isNarrowFloat(operand))
    return bytes;
  int64_t blocks = llvm::alignTo(narrowGemmBytes(shape, isNarrowFloat(result)),
                                 getAlignment(rt::SlotClass::Workspace));
  return std::max(bytes, blocks);
}

/// Kernels use only registers and shared memory.
int64_t GpuBackend::getScratchBytes(rt::KernelOp, int64_t) const { return 0; }

LaunchRules GpuBackend::getLaunchRules() const {
  LaunchRules rules;
  rules.overlap = rules.groups = true;
  return rules;
}

CodeTraits GpuCodeGenerator::getTraits() const {
  CodeTraits traits;
  traits.ptx = true;
  traits.refusal = "cannot generate a GPU kernel: ";
  return traits;
}

FailureOr<LaunchGeometry>
GpuCodeGenerator::emitKernel(rt::KernelOp kernel, KernelModules modules) const {
  FailureOr<KernelLaunch> launch =
      kiln::gpu::emitKernel(getKernelModule(modules.deviceCode), kernel);
  if (failed(launch))
    return failure();
  LaunchGeometry geometry;
  geometry.units = launch->units;
  geometry.grain = launch->unitsPerBlock;
  geometry.threads = launch->threads;
  geometry.sharedBytes = launch->sharedBytes;
  geometry.tableMembers = launch->tableMembers;
  return geometry;
}

llvm::Expected<std::string>
GpuCodeGenerator::compileToPtx(ModuleOp device, StringRef chip) const {
  return kiln::gpu::compileToPtx(device, chip);
}

llvm::ArrayRef<llvm::StringLiteral> GpuCodeGenerator::getDefaultChips() const {
  static constexpr llvm::StringLiteral chips[] = {"sm_80", "sm_90"};
  return chips;
}

llvm::Error GpuCodeGenerator::checkChip(StringRef chip) const {
  return kiln::gpu::checkChip(chip);
}
