//===- ResidualEncoding.h - How one residual can be kept small --*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A residual is a forward value together with the backward ops that read it,
// itself or through views. An encoding says what they could read instead.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_RESIDUALENCODING_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_RESIDUALENCODING_H

#include "StepFunction.h"
#include "kiln/Dialect/Kiln/IR/Kiln.h"
#include "kiln/Dialect/Kiln/Transforms/Lossy.h"

#include <map>

namespace kiln {

/// One operand of a backward op; it is the residual or a view of it.
struct ResidualRead {
  mlir::Operation *reader;
  mlir::Value through;
};

struct ResidualEncoding {
  /// The value whose memory it frees: no view.
  mlir::Value residual;
  /// What the readers read: the residual or a view of all of it.
  mlir::Value through;
  /// In program order.
  llvm::SmallVector<mlir::Operation *, 2> readers;

  /// Bits of the code of an element; 0: a sketch.
  int64_t bits = 0;
  int64_t rows = 0; ///< of the sketch
  int64_t sequences = 0;

  int64_t encodedBytes = 0;
  bool lossy = true;

  bool isSketch() const { return bits == 0; }
  /// "fewbit:3", "mask", "rmm:0.25".
  std::string describe() const;
};

/// The encoding that serves all reads of a residual, if there is one.
std::optional<ResidualEncoding> findEncoding(mlir::Value residual,
                                             llvm::ArrayRef<ResidualRead> reads,
                                             const LossySpec &spec,
                                             int64_t sequences);

/// Rewrites a program to encodings that were found in it.
class EncodingBuilder {
public:
  explicit EncodingBuilder(ProgramOp program);

  /// Makes the encoding behind the residual's definition; its readers read it.
  void apply(const ResidualEncoding &encoding);

private:
  void applyCodes(const ResidualEncoding &encoding);
  void applySketch(const ResidualEncoding &encoding);
  /// The steps that stand for the derivative of `op`.
  const StepFunction &stepsFor(mlir::Operation *op, int64_t bits);
  /// The program's input of this name, which it gets if it has none.
  mlir::Value rng();

  ProgramOp program;
  int64_t nextKey = 0; ///< that no random op has
  std::map<std::pair<double (*)(double), int64_t>, StepFunction> steps;
};

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_RESIDUALENCODING_H
