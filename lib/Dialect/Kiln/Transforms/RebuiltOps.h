//===- RebuiltOps.h - Forward ops that are cheap to compute again -*- C++
//-*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_REBUILTOPS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_REBUILTOPS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

#include <functional>
#include <optional>

namespace kiln {

/// Describes how to compute a value again: the ops to run and their inputs.
struct RebuiltOp {
  mlir::Value residual;
  /// Those operands of the original op that have as many elements as
  /// `residual`.
  llvm::SmallVector<mlir::Value, 2> sources;
  /// All inputs of the recompute region.
  llvm::SmallVector<mlir::Value, 4> inputs;
  /// Builds the ops that compute the residual again from the arguments of the
  /// recompute region. Returns the result.
  std::function<mlir::Value(mlir::OpBuilder &, mlir::ValueRange)> build;
};

/// Returns how to compute the first result of a forward op again, or
/// std::nullopt if the op is not cheap.
std::optional<RebuiltOp> findRebuilt(mlir::Operation *op);

/// Builds a kiln.recompute at the insertion point, and returns its result.
mlir::Value buildAgain(mlir::OpBuilder &builder, const RebuiltOp &rebuilt);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_REBUILTOPS_H
