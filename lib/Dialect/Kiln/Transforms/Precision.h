//===- Precision.h - Helpers of the precision passes ------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_PRECISION_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_PRECISION_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Returns true if an op only copies elements, so that it can also copy
/// converted elements.
inline bool movesElements(mlir::Operation *op) {
  return mlir::isa_and_nonnull<BroadcastOp, ReshapeOp, TransposeOp, SliceOp,
                               PadOp, ConcatOp>(op);
}

/// Moves each cast whose only reader is a broadcast after the broadcast, if the
/// broadcast can be part of a row dispatch.
void sinkCasts(mlir::Block &block);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_PRECISION_H
