//===- RoundingNoise.h - How far rounding moves results ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Monte-Carlo arithmetic: the ops of a command are evaluated in f64, and every
// value that a compiled op rounds is moved by a random amount of up to one eps
// of itself. What no op rounds is not moved: copies, choices and signs stay
// exact. How far the results of such evaluations are from the exact ones is how
// far rounding may move a correct result.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_INTERPRETER_ROUNDINGNOISE_H
#define KILN_LIB_INTERPRETER_ROUNDINGNOISE_H

#include "kiln/Interpreter/ScheduledProgram.h"

#include <cstdint>

namespace kiln {

/// The spacing of f32 or f64 at 1.
double epsilonOf(mlir::Type element);

/// A stream of random evaluations of commands.
class RoundingNoise {
public:
  /// The results of one evaluation on `operands`, which are exact.
  mlir::FailureOr<llvm::SmallVector<TensorHandle>>
  evaluate(const ScheduledCommand &command,
           llvm::ArrayRef<TensorHandle> operands);

private:
  mlir::LogicalResult evaluateOp(mlir::Operation &op);
  /// Moves terms inside an op that its operands do not move, but that may be
  /// far larger than its results: a mean that is subtracted, the logarithm of a
  /// sum of about one, and a probability of about one less the target's one.
  void moveTerms(mlir::Operation &op,
                 llvm::ArrayRef<const HostTensor *> operands,
                 llvm::MutableArrayRef<HostTensor> results);
  void moveMean(const HostTensor &x, const HostTensor &gamma,
                llvm::MutableArrayRef<HostTensor> results, double epsilon);
  /// A number in [-bound, bound).
  double upTo(double bound);
  /// Moves every element of a tensor of reals.
  void move(HostTensor &tensor, double epsilon);

  llvm::DenseMap<mlir::Value, TensorHandle> values;
  uint64_t state = 0x9E3779B97F4A7C15;
};

} // namespace kiln

#endif // KILN_LIB_INTERPRETER_ROUNDINGNOISE_H
