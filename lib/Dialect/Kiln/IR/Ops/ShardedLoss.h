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

/// The operands and attributes of a linear_cross_entropy whose classes are
/// divided over ranks.
struct ShardedLossOperands {
  const HostTensor &hidden, &weight, &targets;
  double scale;
  int64_t rank, classes;
};

/// Returns the loss over the classes of all ranks. If `dhidden` and `dweight`
/// are not null, adds the gradients of `hidden` and `weight` to them,
/// multiplied by `cotangent`. The gradient of `hidden` is only the contribution
/// of the classes of this rank.
llvm::FailureOr<double> evaluateShardedLoss(mlir::Operation *op,
                                            const ShardedLossOperands &operands,
                                            HostTensor *dhidden,
                                            HostTensor *dweight,
                                            double cotangent = 1);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_IR_OPS_SHARDEDLOSS_H
