//===- OpComparison.h - Results of a command against exact ones -*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A correct result is within 8 sqrt(L) eps of the norm of the exact one, L
// being the longest sum of the command. Where terms cancel it may be further
// away; only then is measured how far rounding moves it (RoundingNoise.h).
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_INTERPRETER_OPCOMPARISON_H
#define KILN_LIB_INTERPRETER_OPCOMPARISON_H

#include "RoundingNoise.h"

#include <cmath>
#include <optional>

namespace kiln {

/// How far one tensor is from what it should be.
struct Deviation {
  double difference = 0; ///< Euclidean norm.
  double allowed = 0;
  double unit = 0;              ///< eps * |result|.
  bool amplified = false;       ///< More is allowed, as rounding is amplified.
  size_t element = 0;           ///< The worst one,
  double expected = 0, got = 0; ///< there.

  double ratio() const {
    // A difference that is no number is beyond all bounds.
    double ratio = difference == 0 ? 0 : difference / allowed;
    return std::isnan(ratio) ? HUGE_VAL : ratio;
  }
};

/// Compares element by element; nothing is allowed.
Deviation compareTensors(const HostTensor &expected, const HostTensor &got);

/// Compares what commands computed with what they should.
class OpComparison {
public:
  explicit OpComparison(mlir::ModuleOp module)
      : own(module, EvalType::Own), exact(module, EvalType::F64) {}

  /// One deviation for each of the results `got` of a command on `operands`,
  /// which have the types of the command.
  mlir::FailureOr<llvm::SmallVector<Deviation>>
  compare(const ScheduledCommand &command, llvm::ArrayRef<HostTensor> operands,
          llvm::ArrayRef<HostTensor> got);

private:
  /// How far each result may be from `truth` because of rounding.
  mlir::FailureOr<llvm::SmallVector<double>>
  amplification(const ScheduledCommand &command,
                llvm::ArrayRef<HostTensor> operands,
                llvm::ArrayRef<TensorHandle> truth);

  Interpreter own, exact;
  RoundingNoise noise;
};

} // namespace kiln

#endif // KILN_LIB_INTERPRETER_OPCOMPARISON_H
