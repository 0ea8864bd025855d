//===- SampleKernels.h - Small GPU kernels for tests ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels with the GPU kernel ABI as text, so that tests of the lowerings do
// not depend on the emitters.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_GPU_SAMPLEKERNELS_H
#define KILN_TEST_UNIT_TARGET_GPU_SAMPLEKERNELS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>

namespace kiln::test {

/// A context with the dialects that kernels use.
class KernelContext {
public:
  KernelContext();
  /// Parses a module with one gpu.module that contains `kernels`. Reports
  /// errors to GoogleTest.
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &kernels);
  mlir::MLIRContext context;
};

/// Returns the text of a kernel. The body can use %t and %b, the thread and
/// block index as i64, and the i64 constants %c0, %c1, %c2, %c4, .. %c1024.
/// The parameters of the kernel are `parameters`, followed by %units, the number
/// of work units.
std::string kernel(const std::string &name, const std::string &parameters,
                   int threads, const std::string &body);

/// Returns the kernel curve(x, y): y = sqrt(|x * 2.5 + x / 3|), with 4 elements
/// per thread, 64 threads and 256 elements per block.
std::string curveKernel();

/// Returns the kernel row_sums(x, y, cols): y[r] is the sum of row r of x, with
/// one row per block of two warps. For i = 0, 1, ..., thread t adds the columns
/// from 4 * (t + 64 * i) to 4 * (t + 64 * i) + 3 to four separate sums. These
/// sums are then added as (0+2) + (1+3). Then the sums of lanes at distances
/// 16, 8, 4, 2 and 1 are added, and finally the sums of the two warps.
std::string rowSumKernel();

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_GPU_SAMPLEKERNELS_H
