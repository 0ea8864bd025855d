//===- KernelCalls.h - Calls kernels like the runtime -----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Provides compiled kernels with their launch geometry. Like a team of threads,
// `run` distributes the units of work over several calls, each with
// uninitialized scratch memory.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TEST_UNIT_TARGET_KERNELCALLS_H
#define KILN_TEST_UNIT_TARGET_KERNELCALLS_H

#include "KernelRunner.h"

#include "kiln/Support/ElementConversion.h"
#include "kiln/Target/Cpu/Kernels.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/Verifier.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <type_traits>
#include <vector>

namespace kiln::test {

/// A bf16 element. Arithmetic uses float, and stores round once.
struct Bfloat {
  uint16_t bits = 0;
  Bfloat() = default;
  Bfloat(double value) : bits(support::doubleToBfloat(value)) {}
  operator float() const { return support::bfloatToFloat(bits); }
};

/// The type of arithmetic on elements of type T.
template <typename T>
using Full = std::conditional_t<std::is_same_v<T, Bfloat>, float, T>;

class CompiledKernel {
public:
  /// `emit` appends the kernel named "kernel" to a module.
  template <typename Emit>
  explicit CompiledKernel(Emit emit)
      : context(mlir::MLIRContext::Threading::DISABLED) {
    mlir::OwningOpRef<mlir::ModuleOp> module(
        mlir::ModuleOp::create(mlir::UnknownLoc::get(&context)));
    launch = emit(*module, "kernel", mlir::Builder(&context));
    EXPECT_TRUE(succeeded(mlir::verify(*module)));
    library = std::make_unique<LoadedKernels>(*module);
    function = library->find("kernel");
  }

  void run(const std::vector<void *> &args, const std::vector<int64_t> &imm,
           int calls = 1) {
    std::vector<char *> pointers;
    for (void *arg : args)
      pointers.push_back(static_cast<char *>(arg));
    size_t bytes = (launch.scratchBytes + 64) / 64 * 64;
    std::unique_ptr<char, decltype(&std::free)> scratch(
        static_cast<char *>(std::aligned_alloc(64, bytes)), &std::free);
    for (int i = 0; i < calls; ++i) {
      std::memset(scratch.get(), 0xff, bytes); // NaN
      function(pointers.data(), imm.data(), launch.units * i / calls,
               launch.units * (i + 1) / calls, scratch.get());
    }
  }

  std::vector<std::string> undefinedSymbols() const {
    return library->undefinedSymbols();
  }

  cpu::KernelLaunch launch;

private:
  mlir::MLIRContext context;
  std::unique_ptr<LoadedKernels> library;
  Kernel function = nullptr;
};

template <typename T> mlir::Type elementType(mlir::Builder b) {
  if (sizeof(T) == 2)
    return b.getBF16Type();
  if (sizeof(T) == 4)
    return b.getF32Type();
  return b.getF64Type();
}

/// Returns |got - want| / |want| in Euclidean norms.
template <typename T>
double relativeError(const std::vector<T> &got,
                     const std::vector<double> &want) {
  double error = 0, norm = 0;
  for (size_t i = 0; i < got.size(); ++i) {
    error += (got[i] - want[i]) * (got[i] - want[i]);
    norm += want[i] * want[i];
  }
  return std::sqrt(error / norm);
}

template <typename T> double tolerance() {
  return sizeof(T) == 4 ? 2e-6 : 1e-13;
}

template <typename T>
bool sameBits(const std::vector<T> &x, const std::vector<T> &y) {
  return x.size() == y.size() &&
         std::memcmp(x.data(), y.data(), x.size() * sizeof(T)) == 0;
}

template <typename To, typename From>
std::vector<To> converted(const std::vector<From> &from) {
  return std::vector<To>(from.begin(), from.end());
}

/// Returns unsorted values in about [-2, 2].
template <typename T> std::vector<T> someValues(size_t count, double seed) {
  std::vector<T> values(count);
  for (size_t i = 0; i < count; ++i)
    values[i] = 2 * std::sin(12.9898 * i * i + 78.233 * i + seed);
  return values;
}

} // namespace kiln::test

#endif // KILN_TEST_UNIT_TARGET_KERNELCALLS_H
