//===- StreamOrder.h - Do events order what they must? ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Of two actions on different streams that share bytes, at least one of them
// writing, one must end before the other begins, whatever the streams' speed.
// Vector clocks tell from the waits alone, for every run at once and without
// any luck: the clock of an action says how many actions of each stream are
// over when it begins. The last reader and the last writer of every byte on
// each stream are enough to look at, since the earlier ones were over before.
//
// Clocks are taken from the actions as they are, not from how they were made.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_GPU_STREAMORDER_H
#define KILN_LIB_RUNTIME_GPU_STREAMORDER_H

#include "BufferNames.h"
#include "StreamProgram.h"
#include "kiln/Support/Status.h"

namespace kiln::runtime {

/// Fails with the first two actions that nothing orders; `names` and the
/// actions are of the same program.
Status checkStreamOrder(const StreamProgram &streams, const BufferNames &names);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_GPU_STREAMORDER_H
