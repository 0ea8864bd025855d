//===- EmulatedKernels.h - Runs kernels on the emulated GPU -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests lower the kernels of a module for emulation, compile them like kilnc,
// and load the object into this process, which resolves its calls of kiln_emu_*
// to the emulated device.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_GPU_EMULATEDKERNELS_H
#define KILN_TEST_UNIT_TARGET_GPU_EMULATEDKERNELS_H

#include "kiln/Runtime/Emu/EmuDevice.h"

#include "mlir/IR/BuiltinOps.h"

#include <memory>
#include <string>

namespace llvm::orc {
class LLJIT;
} // namespace llvm::orc

namespace kiln::test {

/// The loaded kernels of a module. Reports failures to GoogleTest.
class EmulatedKernels {
public:
  explicit EmulatedKernels(mlir::ModuleOp module);
  ~EmulatedKernels();
  EmulatedKernels(const EmulatedKernels &) = delete;

  EmuKernel find(const std::string &name) const;

private:
  std::unique_ptr<llvm::orc::LLJIT> jit;
};

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_GPU_EMULATEDKERNELS_H
