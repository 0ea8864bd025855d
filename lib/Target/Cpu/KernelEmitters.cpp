//===- KernelEmitters.cpp - CPU emitters of kilnrt kernels ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#include "kiln/Target/Cpu/KernelEmitters.h"

using namespace mlir;
using namespace kiln;
using namespace kiln::cpu;

namespace kiln::cpu {
#define KILN_KERNEL_FILE(NAME) void add##NAME##Kernel(KernelEmitters &emitters);
#include "Cpu/KernelFiles.inc"
#undef KILN_KERNEL_FILE
} // namespace kiln::cpu

static KernelEmitters makeEmitters() {
  KernelEmitters emitters;
#define KILN_KERNEL_FILE(NAME) add##NAME##Kernel(emitters);
#include "Cpu/KernelFiles.inc"
#undef KILN_KERNEL_FILE
  return emitters;
}

static const KernelEmitter *findEmitter(rt::KernelOp kernel) {
  static const KernelEmitters emitters = makeEmitters();
  return emitters.find(kernel);
}

FailureOr<KernelLaunch> cpu::emitKernel(ModuleOp module, rt::KernelOp kernel) {
  const KernelEmitter *emitter = findEmitter(kernel);
  if (!emitter)
    return kernel.emitOpError("of the family '")
           << kernel.getKind() << "' has no emitter for the target cpu";
  return emitter->emit(module, kernel);
}

int64_t cpu::scratchBytes(rt::KernelOp kernel) {
  const KernelEmitter *emitter = findEmitter(kernel);
  return emitter && emitter->scratchBytes ? emitter->scratchBytes(kernel) : 0;
}
