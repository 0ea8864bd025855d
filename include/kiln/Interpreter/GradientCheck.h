//===- GradientCheck.h - Gradients against finite differences ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares what ops say about their derivatives with what their values do. For
// a program f and cotangents c of its results, the gradient program is f with
// the rules of its ops applied in reverse; everything is interpreted in f64.
//
//   directions   <gradient(c), v>  against  (<c, f(x+hv)> - <c, f(x-hv)>) / 2h
//   Jacobian     every element of every input against every element of every
//                result, when both are few
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_GRADIENTCHECK_H
#define KILN_INTERPRETER_GRADIENTCHECK_H

#include "kiln/Interpreter/Interpreter.h"

#include <optional>
#include <string>

namespace kiln {

struct GradientCheckOptions {
  /// Arguments to differentiate by; all floating point ones by default.
  std::optional<llvm::SmallVector<unsigned>> arguments;
  /// Differences are taken over this times max(1, |x|).
  double step = 1e-6;
  /// Passes within absolute + relative * |difference quotient|.
  double absolute = 1e-5, relative = 1e-3;
  int directions = 3;
  /// The Jacobian is compared up to this many elements on either side.
  int64_t jacobianElements = 64;
  uint64_t seed = 0;
};

struct GradientCheckResult {
  int64_t compared = 0;
  /// The largest error in units of the tolerance: passed when at most 1.
  double worst = 0;
  /// What had the largest error, with both values.
  std::string where;
  bool passed() const { return compared > 0 && worst <= 1; }
};

/// Checks the derivatives of `program`, a straight line of ops without states,
/// at `inputs`, whose floating point tensors are f64. A failure was diagnosed.
mlir::FailureOr<GradientCheckResult>
checkGradients(ProgramOp program, llvm::ArrayRef<HostTensor> inputs,
               const GradientCheckOptions &options = {});

/// Adds a program to the module that takes the arguments of `program` and one
/// cotangent per result, and returns the gradients of `arguments`.
mlir::FailureOr<ProgramOp>
buildGradientProgram(ProgramOp program, llvm::ArrayRef<unsigned> arguments);

} // namespace kiln

#endif // KILN_INTERPRETER_GRADIENTCHECK_H
