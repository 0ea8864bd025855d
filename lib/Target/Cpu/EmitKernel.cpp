//===- EmitKernel.cpp - From kilnrt kernels to the emitters -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Cpu/EmitKernel.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

namespace {

/// Calls the emitter of a family.
struct Emitter {
  ModuleOp module;
  StringRef name;

  KernelLaunch operator()(const RowShape &shape) const {
    auto emit = shape.epilogue ? emitRowEpilogue : emitRowKernel;
    return emit(module, name, shape);
  }
  KernelLaunch operator()(const AttentionShape &shape) const {
    return emitAttention(module, name, shape);
  }
  KernelLaunch operator()(const AttentionGradShape &shape) const {
    return emitAttentionGrad(module, name, shape);
  }
  KernelLaunch operator()(const RopeShape &shape) const {
    return emitRope(module, name, shape);
  }
  KernelLaunch operator()(const ScatterShape &shape) const {
    return emitScatter(module, name, shape);
  }
  KernelLaunch operator()(const PermuteShape &shape) const {
    return emitPermute(module, name, shape);
  }
  KernelLaunch operator()(const BucketEncodeShape &shape) const {
    return emitBucketEncode(module, name, shape);
  }
  KernelLaunch operator()(const BucketDecodeShape &shape) const {
    return emitBucketDecode(module, name, shape);
  }
  KernelLaunch operator()(const SketchShape &shape) const {
    return emitSketch(module, name, shape);
  }
};

} // namespace

FailureOr<KernelLaunch> cpu::emitKernel(ModuleOp module, rt::KernelOp kernel) {
  FailureOr<KernelShape> shape = readKernelShape(kernel);
  if (failed(shape))
    return failure();
  return std::visit(Emitter{module, kernel.getSymName()}, *shape);
}

int64_t cpu::scratchBytes(rt::KernelOp kernel) {
  // Only these work in scratch memory; their emitters know how much.
  if (kernel.getFamily() != Family::Attention &&
      kernel.getFamily() != Family::Sketch)
    return 0;
  OwningOpRef<ModuleOp> module = ModuleOp::create(kernel.getLoc());
  auto launch = emitKernel(*module, kernel);
  return succeeded(launch) ? launch->scratchBytes : 0;
}
