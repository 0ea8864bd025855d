//===- KernelRunner.h - Compiles and calls kernels --------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Tests emit kernels into a module, compile it like kilnc, link the object into
// a shared library and call the kernels through their ABI.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_KERNELRUNNER_H
#define KILN_TEST_UNIT_TARGET_KERNELRUNNER_H

#include "mlir/IR/BuiltinOps.h"

#include <cstdint>
#include <string>
#include <vector>

namespace kiln::test {

using Kernel = void (*)(char *const *args, const int64_t *imm, int64_t begin,
                        int64_t end, char *scratch);

/// The loaded kernels of a module. Reports failures to GoogleTest.
class LoadedKernels {
public:
  /// Compiles a copy of `module` for this machine, or for the processor `mcpu`.
  explicit LoadedKernels(mlir::ModuleOp module, const char *mcpu = "");
  ~LoadedKernels();
  LoadedKernels(const LoadedKernels &) = delete;

  Kernel find(const std::string &name) const;
  /// Returns the undefined symbols of the object file, sorted.
  std::vector<std::string> undefinedSymbols() const { return undefined; }

private:
  void *library = nullptr;
  std::vector<std::string> undefined;
};

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_KERNELRUNNER_H
