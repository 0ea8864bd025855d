//===- StateGathers.h - All-gathers of states -------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_DIALECT_KILN_TRANSFORMS_STATEGATHERS_H
#define KILN_LIB_DIALECT_KILN_TRANSFORMS_STATEGATHERS_H

#include "kiln/Dialect/Kiln/IR/Kiln.h"

namespace kiln {

/// Returns true if all operands of an op are the values of states.
bool readsStates(mlir::Operation *op);

/// Returns true for an all-gather of states. It can start at any time before
/// its readers, because states do not change before their updates.
bool gathersStates(mlir::Operation *op);

/// Moves the kiln.read ops that define `states` before `position`, if they are
/// in its block and follow it.
void moveReadsBefore(mlir::ValueRange states, mlir::Operation *position);

/// Joins small all-gathers of states that follow one another in a layer, and on
/// the same side of the phase marker of the block. To be used where recomputed
/// ops are in the block, and ops have layers.
void joinGathers(mlir::Block &block);

/// Returns the first op of the backward segment of micro-batches that are not
/// divided: the first op that reads the loss scale or a sum. If this op reads
/// the result of a GEMM that computes logits, and all commands between them
/// belong to the loss, the segment begins with that GEMM. The segment has at
/// least the terminator.
mlir::Operation *findBackwardSegment(MicrobatchesOp op);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_STATEGATHERS_H
