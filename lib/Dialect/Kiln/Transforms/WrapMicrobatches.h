//===- WrapMicrobatches.h - Sums over micro-batches -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_WRAPMICROBATCHES_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_WRAPMICROBATCHES_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Moves the forward and backward pass of a training program into a
/// kiln.microbatches, unless there is one micro-batch, and makes the program
/// return the sums of its results over the micro-batches. Reads of states stay
/// outside: micro-batches do not write states, so all of them would read the
/// same values. Result i is added to its sum after the op `complete[i]`, or at
/// the end of the micro-batch if this op is null or outside of the micro-batch.
/// Reports an error if the program writes states, or if the batch would be too
/// large.
llvm::LogicalResult
wrapMicrobatches(ProgramOp program, int64_t microbatches,
                 const abi::SegmentOrder &order,
                 llvm::ArrayRef<mlir::Operation *> complete);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_WRAPMICROBATCHES_H
