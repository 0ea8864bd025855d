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

/// Returns true if a value is read from a state, or is computed from such
/// values alone by casts, dispatches and copies from the host. The value can be
/// computed at any time before the update of the state.
bool isFromState(mlir::Value value);

/// Returns true for an all-gather of values that isFromState() accepts. It can
/// start at any time before its readers.
bool gathersStates(mlir::Operation *op);

/// Moves the ops that compute `values`, including the reads of states, before
/// the op `position`. Ops that are in another block, or already before
/// `position`, stay.
void moveSourcesBefore(mlir::ValueRange values, mlir::Operation *position);

/// Joins small all-gathers of states that follow one another in a layer and in
/// the same pass, forward or backward. Must be called after recomputed ops were
/// moved to the block, and before the layers of ops are removed.
void joinGathers(mlir::Block &block);

/// Returns the first op of the backward segment in `op`, which is not yet
/// divided into segments: the first op that reads the loss scale or a sum over
/// micro-batches. If this op reads the result of a GEMM that computes logits,
/// and all commands between the GEMM and this op belong to the loss, the
/// segment begins with the GEMM. The all-gathers of states directly before the
/// segment belong to it, too. The segment has at least the terminator.
mlir::Operation *findBackwardSegment(MicrobatchesOp op);

} // namespace kiln

#endif // KILN_LIB_DIALECT_KILN_TRANSFORMS_STATEGATHERS_H
