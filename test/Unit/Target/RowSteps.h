//===- RowSteps.h - Row programs one op at a time ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the bits that a kernel on narrow floats must produce: every op of
// the program runs as a separate kernel on f32 elements, and a simple host
// function rounds each narrow result once.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_ROWSTEPS_H
#define KILN_TEST_UNIT_TARGET_ROWSTEPS_H

#include "RowRunner.h"

namespace kiln::test {

class RowSteps {
public:
  /// Appends the kernels of `instance` to `module`; their names start with
  /// `name`. Reports failures to GoogleTest.
  RowSteps(mlir::ModuleOp module, const std::string &name,
           const RowInstance &instance);

  std::vector<HostTensor> run(const LoadedKernels &library,
                              const RowInstance &instance,
                              mlir::ArrayRef<HostTensor> inputs) const;

private:
  struct Step {
    mlir::Operation *op;
    std::string name;
    int64_t units = 0;
    llvm::SmallVector<int64_t, 2> immediates;
  };

  std::vector<Step> steps;
};

/// Rounds the elements of a tensor of narrow floats.
void roundElements(HostTensor &tensor);

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_ROWSTEPS_H
