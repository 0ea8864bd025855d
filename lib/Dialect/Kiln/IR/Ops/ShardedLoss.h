//===- ShardedLoss.h - Losses of classes that ranks divide ------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_IR_OPS_SHARDEDLOSS_H
#define KILN_LIB_DIALECT_KILN_IR_OPS_SHARDEDLOSS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// The operands and attributes of a linear_cross_entropy with `rank`.
struct ShardedLossOperands {
  const HostTensor &hidden, &weight, &targets;
  double scale;
  int64_t rank, classes;
};

/// Returns the loss of all classes. If `dhidden` and `dweight` are not null,
/// adds the gradients for `cotangent` to them; that of `hidden` is the
/// contribution of this rank.
llvm::FailureOr<double> evaluateShardedLoss(mlir::Operation *op,
                                            const ShardedLossOperands &operands,
                                            HostTensor *dhidden,
                                            HostTensor *dweight,
                                            double cotangent = 1);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_IR_OPS_SHARDEDLOSS_H
