//===- SplitLoss.h - Losses of micro-batches --------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_SPLITLOSS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_SPLITLOSS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Changes a forward program so that the losses of `microbatches` micro-batches
/// add up to the loss of the batch. If this cannot be proven, emits an error at
/// the op at which the proof fails. Also emits an error if the micro-batches
/// would write different values to a state. Must run before differentiation, so
/// that the gradients add up as well.
llvm::LogicalResult splitLoss(ProgramOp program, int64_t microbatches);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_SPLITLOSS_H
