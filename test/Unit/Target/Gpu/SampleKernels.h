//===- SampleKernels.h - Small GPU kernels for tests ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Kernels of the GPU kernel ABI as text, so that the lowerings are tested
// without the emitters.
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
  /// A module with one gpu.module of `kernels`. Reports errors to GoogleTest.
  mlir::OwningOpRef<mlir::ModuleOp> parse(const std::string &kernels);
  mlir::MLIRContext context;
};

/// What one thread of a warp has: %t and %b, the thread and block as i64, and
/// constants %c0, %c1, .. %c1024 (the powers of two) of i64. `parameters` come
/// before %units.
std::string kernel(const std::string &name, const std::string &parameters,
                   int threads, const std::string &body);

/// curve(x, y): y = sqrt(|x * 2.5 + x / 3|), 4 elements per thread, 64 threads,
/// 256 units per block.
std::string curveKernel();

/// row_sums(x, y, cols): y[r] = the sum of row r of x, a row per block of two
/// warps. Thread t adds columns 4 * (t + 64 * i) .. + 3 in order of i; then
/// come elements (0+2) + (1+3), lanes at distance 16, 8, 4, 2, 1, and the two
/// warps.
std::string rowSumKernel();

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_GPU_SAMPLEKERNELS_H
