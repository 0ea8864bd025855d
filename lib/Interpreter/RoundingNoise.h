//===- RoundingNoise.h - Effect of rounding on results ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Monte Carlo arithmetic: the ops of a command are evaluated in f64, and every
// value that a compiled op rounds is perturbed by a random relative amount of
// up to one epsilon. Values that no op rounds, such as copies, selections and
// signs, stay exact. The distance of the perturbed results from the exact ones
// estimates the error that rounding may cause in a correct result.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_INTERPRETER_ROUNDINGNOISE_H
#define KILN_LIB_INTERPRETER_ROUNDINGNOISE_H

#include "kiln/Interpreter/ScheduledProgram.h"

#include <cstdint>

namespace kiln {

/// Returns the distance from 1 to the next larger value of a floating-point
/// type.
double epsilonOf(mlir::Type element);

/// Evaluates commands with random perturbations.
class RoundingNoise {
public:
  /// Returns the results of one perturbed evaluation on `operands`, which are
  /// exact.
  mlir::FailureOr<llvm::SmallVector<TensorHandle>>
  evaluate(const ScheduledCommand &command,
           llvm::ArrayRef<TensorHandle> operands);

private:
  mlir::LogicalResult evaluateOp(mlir::Operation &op);
  /// Returns a random number in [-bound, bound).
  double upTo(double bound);
  /// Perturbs every element of a floating-point tensor.
  void move(HostTensor &tensor, double epsilon);

  llvm::DenseMap<mlir::Value, TensorHandle> values;
  uint64_t state = 0x9E3779B97F4A7C15;
};

} // namespace kiln

#endif // KILN_LIB_INTERPRETER_ROUNDINGNOISE_H
