//===- AllTargets.h - Registration of all targets ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_ALLTARGETS_H
#define KILN_TARGET_ALLTARGETS_H

#include "kiln/Target/Cpu/CpuBackend.h"
#include "kiln/Target/Gpu/Targets.h"

namespace kiln {

/// Registers all targets, in the order in which diagnostics list them.
inline void registerAllTargets(mlir::DialectRegistry &registry) {
  registerCpuTarget(registry);
  registerCudaTarget(registry);
  registerCudaEmuTarget(registry);
}

} // namespace kiln

#endif // KILN_TARGET_ALLTARGETS_H
