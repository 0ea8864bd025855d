//===- KernelEmitters.cpp - GPU emitters of kilnrt kernels ----------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Gpu/KernelEmitters.h"

#include "MemberTable.h"
#include "kiln/Target/Common/LaunchGroups.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <numeric>

using namespace mlir;
using namespace kiln;
using namespace kiln::gpu;

/// Alignment of an arena in bytes, which is the upper bound of the alignment
/// that can be derived for an address.
constexpr int64_t kMostAlignment = 256;

mlir::gpu::GPUModuleOp kiln::gpu::getKernelModule(ModuleOp module) {
  for (auto kernels : module.getOps<mlir::gpu::GPUModuleOp>())
    return kernels;
  module.getContext()->loadDialect<mlir::gpu::GPUDialect>();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  return mlir::gpu::GPUModuleOp::create(builder, module.getLoc(), "kernels");
}

/// Returns, for each argument, the largest power of two of at most
/// kMostAlignment that divides all addresses that launches pass.
static SmallVector<int64_t> argumentAlignments(rt::KernelOp kernel) {
  SmallVector<unsigned> order = argumentOrder(kernel);
  SmallVector<int64_t> alignments(order.size(), kMostAlignment);
  kernel->getParentOfType<ModuleOp>().walk([&](rt::LaunchOp launch) {
    if (launch.getKernel() != kernel.getSymName())
      return;
    auto views = llvm::map_to_vector(launch.getPlaces(), rt::viewOf);
    for (auto [position, i] : llvm::enumerate(order))
      for (int64_t part :
           {int64_t(views[i].getSlotOp().getOffset()),
            int64_t(views[i].getOffset()), int64_t(views[i].getStride())})
        alignments[position] = std::gcd(alignments[position], part);
  });
  return alignments;
}

namespace kiln::gpu {
#define KILN_KERNEL_FILE(NAME) void add##NAME##Kernel(KernelEmitters &emitters);
#include "Gpu/KernelFiles.inc"
#undef KILN_KERNEL_FILE
} // namespace kiln::gpu

static KernelEmitters makeEmitters() {
  KernelEmitters emitters;
#define KILN_KERNEL_FILE(NAME) add##NAME##Kernel(emitters);
#include "Gpu/KernelFiles.inc"
#undef KILN_KERNEL_FILE
  return emitters;
}

static const KernelEmitter *findEmitter(rt::KernelOp kernel) {
  static const KernelEmitters emitters = makeEmitters();
  return emitters.find(kernel);
}

/// Calls an emitter. Diagnostics of emitters name the kernel, which users do
/// not know, so an error also names the layer of the first launch.
static FailureOr<KernelLaunch> callEmitter(KernelEmitter emit,
                                           mlir::gpu::GPUModuleOp kernels,
                                           rt::KernelOp kernel) {
  SmallVector<int64_t> alignments = argumentAlignments(kernel);
  std::string why;
  FailureOr<KernelLaunch> emitted = failure();
  {
    ScopedDiagnosticHandler handler(
        kernel.getContext(), [&](Diagnostic &diagnostic) {
          if (diagnostic.getSeverity() != DiagnosticSeverity::Error)
            return failure();
          why = diagnostic.str();
          return success();
        });
    emitted = emit(kernels, kernel, alignments);
  }
  if (succeeded(emitted))
    return emitted;
  rt::LaunchOp first;
  kernel->getParentOfType<ModuleOp>().walk([&](rt::LaunchOp launch) {
    if (launch.getKernel() != kernel.getSymName())
      return WalkResult::advance();
    first = launch;
    return WalkResult::interrupt();
  });
  Location place = first ? first.getLoc() : kernel.getLoc();
  StringRef name = getLocationName(place);
  std::string layer = name.empty() ? "" : ("layer '" + name + "': ").str();
  return emitError(place) << layer << why << "; --target=cpu supports this op";
}

FailureOr<KernelLaunch> kiln::gpu::emitKernel(mlir::gpu::GPUModuleOp kernels,
                                              rt::KernelOp kernel) {
  if (kernel.getEpilogue())
    return kernel.emitOpError(
        "is a GEMM epilogue that runs on tiles, which GPU targets do not "
        "support, because the vendor library computes the GEMMs");
  const KernelEmitter *emit = findEmitter(kernel);
  if (!emit)
    return kernel.emitOpError("of the family '")
           << kernel.getKind() << "' has no emitter for GPUs";
  FailureOr<KernelLaunch> launch = callEmitter(*emit, kernels, kernel);
  int64_t members = getLargestGroup(kernel);
  if (failed(launch) || members == 0)
    return launch;
  addMemberTable(
      kernels.lookupSymbol<mlir::gpu::GPUFuncOp>(kernel.getSymName()), members);
  launch->tableMembers = members;
  return launch;
}
