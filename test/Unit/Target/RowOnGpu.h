//===- RowOnGpu.h - Row kernels on the emulated GPU -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Runs the GPU kernels of row programs. Each program has two kernels: one for
// arguments with the alignment of an arena, and one for arguments that are
// offset by eight bytes. The emulated device detects races and out-of-bounds
// accesses.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_ROWONGPU_H
#define KILN_TEST_UNIT_TARGET_ROWONGPU_H

#include "Gpu/EmulatedKernels.h"
#include "RowRunner.h"

#include "kiln/Target/Gpu/Kernels.h"

#include <map>

namespace kiln::test {

class RowOnGpu {
public:
  explicit RowOnGpu(mlir::MLIRContext &context);

  void add(const std::string &name, const RowShape &shape);
  /// Compiles all kernels; called once, after all calls of add().
  void compile();

  /// Runs kernel `name` on buffers of all operands and results and returns the
  /// number of accessed sectors. If shared.first >= 0, result shared.second
  /// uses the buffer of operand shared.first. `isShifted` offsets the arguments
  /// by eight bytes.
  runtime::EmuCounts run(const std::string &name, bool isShifted,
                         llvm::MutableArrayRef<Buffer> buffers,
                         size_t numOperands, llvm::ArrayRef<int64_t> immediates,
                         std::pair<int, int> shared, uint64_t seed);

private:
  std::string variant(const std::string &name, bool isShifted) const {
    return name + (isShifted ? "_shifted" : "");
  }

  mlir::OwningOpRef<mlir::ModuleOp> module;
  std::map<std::string, gpu::KernelLaunch> launches;
  std::unique_ptr<EmulatedKernels> kernels;
};

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_ROWONGPU_H
