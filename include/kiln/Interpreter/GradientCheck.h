//===- GradientCheck.h - Gradients against finite differences ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Compares the gradients given by the derivative rules of ops with difference
// quotients. For a program f and cotangents c of its results, the gradient
// program applies the rules of f's ops in reverse order. Everything is
// interpreted in f64. With inputs x, a random direction v and a small step h,
// the comparisons are:
//
//   directions   <gradient(c), v>  against  (<c, f(x+hv)> - <c, f(x-hv)>) / 2h
//   Jacobian     the derivatives of all elements of the results with respect to
//                all elements of the inputs, if results and inputs have few
//                elements
//
//===----------------------------------------------------------------------===//

#ifndef KILN_INTERPRETER_GRADIENTCHECK_H
#define KILN_INTERPRETER_GRADIENTCHECK_H

#include "kiln/Interpreter/Interpreter.h"

#include <optional>
#include <string>

namespace kiln {

struct GradientCheckOptions {
  /// Arguments to differentiate with respect to; default: all floating-point
  /// arguments.
  std::optional<llvm::SmallVector<unsigned>> arguments;
  /// Step of the differences, relative to max(1, |x|).
  double step = 1e-6;
  /// The tolerance is absolute + relative * |difference quotient|.
  double absolute = 1e-5, relative = 1e-3;
  int directions = 3;
  /// The Jacobian is compared if inputs and results have at most this many
  /// elements each.
  int64_t jacobianElements = 64;
  uint64_t seed = 0;
};

struct GradientCheckResult {
  int64_t compared = 0;
  /// The maximum of error / tolerance over all comparisons. The check passes if
  /// the maximum is at most 1.
  double worst = 0;
  /// Description of the comparison with the largest error / tolerance. Contains
  /// the two compared values.
  std::string where;
  bool passed() const { return compared > 0 && worst <= 1; }
};

/// Checks the derivatives of `program`, a sequence of ops without states or
/// regions, at `inputs`, whose floating-point tensors are f64. Emits a
/// diagnostic on failure.
mlir::FailureOr<GradientCheckResult>
checkGradients(ProgramOp program, llvm::ArrayRef<HostTensor> inputs,
               const GradientCheckOptions &options = {});

/// Adds the gradient program of `program` to the module. The arguments of the
/// gradient program are the arguments of `program`, followed by one cotangent
/// per result of `program`. Its results are the gradients with respect to
/// `arguments`.
mlir::FailureOr<ProgramOp>
buildGradientProgram(ProgramOp program, llvm::ArrayRef<unsigned> arguments);

} // namespace kiln

#endif // KILN_INTERPRETER_GRADIENTCHECK_H
