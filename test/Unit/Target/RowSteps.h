//===- RowSteps.h - Row programs one op at a time ---------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// What a kernel on bf16 elements has to give, bit for bit: every op of its
// program runs as a kernel of its own on f32 elements, and each result of type
// bf16 is rounded once, by a plain function.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_ROWSTEPS_H
#define KILN_TEST_UNIT_TARGET_ROWSTEPS_H

#include "RowRunner.h"

namespace kiln::test {

class RowSteps {
public:
  /// Appends the kernels of `instance` to `module`; their names begin with
  /// `name`. A failure is one of the test.
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

/// Rounds the elements of a bf16 tensor to its type.
void roundElements(HostTensor &tensor);

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_ROWSTEPS_H
