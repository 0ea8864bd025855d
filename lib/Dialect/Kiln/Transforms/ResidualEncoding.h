//===- ResidualEncoding.h - Encoding of a single residual -------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// An encoding is a smaller tensor that the backward ops can read instead of a
// residual.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_RESIDUALENCODING_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_RESIDUALENCODING_H

#include "Residuals.h"
#include "StepFunction.h"
#include "kiln/Dialect/Kiln/Transforms/Lossy.h"

#include <map>

namespace kiln {

struct ResidualEncoding {
  /// The value that the encoding replaces in memory. It is not a view.
  mlir::Value residual;
  /// The value that the readers use: the residual or a view of all of it.
  mlir::Value through;
  /// Backward ops that read the residual, in program order.
  llvm::SmallVector<mlir::Operation *, 2> readers;

  /// Bits per element of an encoded derivative; 0 for a sketch, whose few rows
  /// are sums of rows of the residual with random signs.
  int64_t bits = 0;
  int64_t rows = 0; ///< Rows of the sketch.
  int64_t sequences = 0;

  int64_t encodedBytes = 0;
  bool lossy = true;

  bool isSketch() const { return bits == 0; }
  /// Returns the type of the sketch. Requires isSketch().
  mlir::RankedTensorType getSketchType() const;
  /// Returns a description: "fewbit:3", "mask" or "rmm:16/64".
  std::string describe() const;
};

/// Returns an encoding that all reads of a residual can use, if there is one.
std::optional<ResidualEncoding> findEncoding(mlir::Value residual,
                                             llvm::ArrayRef<ResidualRead> reads,
                                             const LossySpec &spec,
                                             int64_t sequences);

/// Applies encodings to the program in which they were found.
class EncodingBuilder {
public:
  explicit EncodingBuilder(ProgramOp program);

  /// Inserts ops that compute the encoding after the residual's definition, and
  /// makes the readers read the encoding.
  void apply(const ResidualEncoding &encoding);

private:
  void applyCodes(const ResidualEncoding &encoding);
  void applySketch(const ResidualEncoding &encoding);
  /// Returns the step function that approximates the derivative of `op`.
  const StepFunction &stepsFor(mlir::Operation *op, int64_t bits);
  ProgramOp program;
  int64_t nextKey; ///< Greater than the keys of all random ops.
  std::map<std::pair<double (*)(double), int64_t>, StepFunction> steps;
};

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_RESIDUALENCODING_H
