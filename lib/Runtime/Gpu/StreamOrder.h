//===- StreamOrder.h - Verification of events between streams ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifies that events order all conflicting accesses. Two actions on different
// streams conflict if they access the same byte and at least one of them writes
// it. One of the two must then complete before the other begins, regardless of
// how fast the streams run.
//
// The check uses vector clocks and therefore covers every interleaving of the
// streams. The clock of an action contains, for each stream, the number of
// actions of that stream that are certain to have completed when the action
// begins. For each byte and stream, it is sufficient to consider the last
// reader and the last writer: when an action of a stream completes, all earlier
// actions of that stream have completed. The clocks are computed only from the
// events of the actions. Therefore the check also detects errors in
// buildStreamProgram(), which chooses the events.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_GPU_STREAMORDER_H
#define KILN_LIB_RUNTIME_GPU_STREAMORDER_H

#include "BufferNames.h"
#include "StreamProgram.h"
#include "kiln/Support/Status.h"

namespace kiln::runtime {

/// Returns an error that names the first two conflicting actions that no event
/// orders, or success if events order all conflicting actions. `names` must
/// belong to the same program as `streams`.
Status checkStreamOrder(const StreamProgram &streams, const BufferNames &names);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_STREAMORDER_H
