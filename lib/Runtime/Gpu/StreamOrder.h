//===- StreamOrder.h - Verification of events between streams ---*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Verifies that events order all conflicting accesses: if two actions on
// different streams access the same byte and at least one of them writes it,
// one must complete before the other begins, whatever the speed of the streams.
//
// The check uses vector clocks and therefore covers every interleaving. The
// clock of an action gives, for each stream, the number of actions that have
// completed when it begins. For each byte it is sufficient to consider the last
// reader and the last writer on each stream, since all earlier actions of a
// stream have completed when one of its actions completes. Clocks are computed
// from the events of the actions alone, so the check also detects an error in
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
/// orders. `names` must belong to the same program as `streams`.
Status checkStreamOrder(const StreamProgram &streams, const BufferNames &names);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_STREAMORDER_H
