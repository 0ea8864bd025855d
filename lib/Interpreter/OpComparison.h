//===- OpComparison.h - Error bounds for results of commands ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The difference of a correct result from the exact result is usually at most 8
// sqrt(L) eps times the norm of the result, where L is the length of the
// longest sum of the command. If terms of a sum cancel, the difference may
// exceed this bound. Therefore, if a difference exceeds the bound, the effect
// of rounding is measured (see RoundingNoise.h) and may raise the bound.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_INTERPRETER_OPCOMPARISON_H
#define KILN_LIB_INTERPRETER_OPCOMPARISON_H

#include "RoundingNoise.h"

#include <cmath>
#include <optional>

namespace kiln {

/// Difference between a tensor and its expected value.
struct Deviation {
  double difference = 0; ///< Euclidean norm of the difference.
  double allowed = 0;
  /// eps times the norm of the result, plus the largest effect of flushing
  /// small numbers to zero.
  double unit = 0;
  /// True if the bound was raised by the measured effect of rounding.
  bool amplified = false;
  size_t element = 0;           ///< Index of the element with the largest
                                ///< difference.
  double expected = 0, got = 0; ///< The values of the element `element`.

  double ratio() const {
    // A NaN difference exceeds every bound.
    double ratio = difference == 0 ? 0 : difference / allowed;
    return std::isnan(ratio) ? HUGE_VAL : ratio;
  }
};

/// Compares tensors element by element, with an allowed difference of 0.
Deviation compareTensors(const HostTensor &expected, const HostTensor &got);

/// Compares the results of commands with the results of exact evaluations (in
/// f64).
class OpComparison {
public:
  explicit OpComparison(mlir::ModuleOp module)
      : own(module, EvalType::Own), exact(module, EvalType::F64) {}

  /// Compares the results `got` of a command on `operands` with exact results,
  /// and returns one deviation for each result. All tensors have the types of
  /// the command.
  mlir::FailureOr<llvm::SmallVector<Deviation>>
  compare(const ScheduledCommand &command, llvm::ArrayRef<HostTensor> operands,
          llvm::ArrayRef<HostTensor> got);

private:
  /// Returns the effect of rounding on each result, as a distance from `truth`.
  mlir::FailureOr<llvm::SmallVector<double>>
  amplification(const ScheduledCommand &command,
                llvm::ArrayRef<HostTensor> operands,
                llvm::ArrayRef<TensorHandle> truth);

  Interpreter own, exact;
  RoundingNoise noise;
};

} // namespace kiln

#endif // KILN_LIB_INTERPRETER_OPCOMPARISON_H
