//===- RowOnGpu.h - Row kernels on the emulated gpu -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The gpu kernels of row programs: one for arguments that lie as in an arena,
// one for arguments eight bytes off. The emulated device looks for races and
// for accesses out of bounds.
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
  /// Once, behind all add().
  void compile();

  /// Runs kernel `name` on buffers of all operands and results, with result
  /// `shared.second` in the place of operand `shared.first` unless that is
  /// negative. `isShifted`: eight bytes off.
  /// Returns the sectors that were moved.
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
