//===- EmitKernel.cpp - From kilnrt kernels to the emitters ---------------===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Gpu/EmitKernel.h"

#include "Flash.h"
#include "MemberTable.h"
#include "kiln/Target/Common/LaunchGroups.h"

#include "mlir/Dialect/GPU/IR/GPUDialect.h"

#include <numeric>

using namespace mlir;
using namespace kiln;
using namespace kiln::gpu;

/// Of an arena's first byte, and so of what is known of any address.
constexpr int64_t kMostAlignment = 256;

mlir::gpu::GPUModuleOp kiln::gpu::getKernelModule(ModuleOp module) {
  for (auto kernels : module.getOps<mlir::gpu::GPUModuleOp>())
    return kernels;
  module.getContext()->loadDialect<mlir::gpu::GPUDialect>();
  OpBuilder builder = OpBuilder::atBlockEnd(module.getBody());
  return mlir::gpu::GPUModuleOp::create(builder, module.getLoc(), "kernels");
}

/// By argument, the largest power of two that divides all its addresses.
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

namespace {

/// Calls the emitter of a family.
struct Emitter {
  mlir::gpu::GPUModuleOp kernels;
  StringRef name;
  Alignments alignments;

  FailureOr<KernelLaunch> operator()(const RowShape &shape) const {
    return emitRowKernel(kernels, name, shape, alignments);
  }
  FailureOr<KernelLaunch> operator()(const AttentionShape &shape) const {
    return suitsTensorCores(shape)
               ? emitFlashAttention(kernels, name, shape, alignments)
               : emitAttention(kernels, name, shape, alignments);
  }
  FailureOr<KernelLaunch> operator()(const AttentionGradShape &shape) const {
    return suitsTensorCores(shape)
               ? emitFlashAttentionGrad(kernels, name, shape, alignments)
               : emitAttentionGrad(kernels, name, shape, alignments);
  }
  FailureOr<KernelLaunch> operator()(const RopeShape &shape) const {
    return emitRope(kernels, name, shape, alignments);
  }
  FailureOr<KernelLaunch> operator()(const ScatterShape &shape) const {
    return emitScatter(kernels, name, shape, alignments);
  }
  FailureOr<KernelLaunch> operator()(const PermuteShape &shape) const {
    return emitPermute(kernels, name, shape, alignments);
  }
  FailureOr<KernelLaunch> operator()(const BucketEncodeShape &shape) const {
    return emitBucketEncode(kernels, name, shape, alignments);
  }
  FailureOr<KernelLaunch> operator()(const BucketDecodeShape &shape) const {
    return emitBucketDecode(kernels, name, shape, alignments);
  }
  FailureOr<KernelLaunch> operator()(const SketchShape &shape) const {
    return emitSketch(kernels, name, shape, alignments);
  }
};

} // namespace

/// Emits a kernel. What emitters say is about a kernel's name, which no user
/// knows: an error names the layer that launches it first.
static FailureOr<KernelLaunch> emitShape(const Emitter &emitter,
                                         const KernelShape &shape,
                                         rt::KernelOp kernel) {
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
    emitted = std::visit(emitter, shape);
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
  return emitError(place) << layer << why << "; --target=cpu computes it";
}

FailureOr<KernelLaunch> kiln::gpu::emitKernel(mlir::gpu::GPUModuleOp kernels,
                                              rt::KernelOp kernel) {
  if (kernel.getEpilogue())
    return kernel.emitOpError("works on tiles of a product, which a library "
                              "computes whole");
  FailureOr<KernelShape> shape = readKernelShape(kernel);
  if (failed(shape))
    return failure();
  SmallVector<int64_t> alignments = argumentAlignments(kernel);
  FailureOr<KernelLaunch> launch = emitShape(
      Emitter{kernels, kernel.getSymName(), alignments}, *shape, kernel);
  int64_t members = getLargestGroup(kernel);
  if (failed(launch) || members == 0)
    return launch;
  addMemberTable(
      kernels.lookupSymbol<mlir::gpu::GPUFuncOp>(kernel.getSymName()), members);
  launch->tableMembers = members;
  return launch;
}
