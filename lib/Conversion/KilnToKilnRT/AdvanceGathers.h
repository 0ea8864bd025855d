//===- AdvanceGathers.h - Early starts of gathers of states -----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_CONVERSION_KILNTOKILNRT_ADVANCEGATHERS_H
#define KILN_LIB_CONVERSION_KILNTOKILNRT_ADVANCEGATHERS_H

#include "kiln/Conversion/KilnToKilnRT/BufferPlan.h"
#include "kiln/Target/Interface/TargetBackend.h"

namespace kiln {

/// Returns true if a plan has all-gathers.
bool hasGathers(const ProgramPlan &plan);

/// Returns the peak of the live bytes on the device over all commands of a
/// plan. Counts neither states nor buffers that only one rank has.
int64_t peakBytesOf(const ProgramPlan &plan, const TargetBackend &target);

/// Moves the start of each all-gather that reads only states, or casts of
/// states, to the earliest command such that at most `limit` bytes, counted as
/// by peakBytesOf(), are live during every command. The transfers then have
/// more time before the commands that wait for them. The gathers keep their
/// order, and stay in their segment (forward or backward). Returns true if a
/// start was moved.
bool advanceGathers(ProgramPlan &plan, const TargetBackend &target,
                    int64_t limit);

} // namespace kiln

#endif // KILN_LIB_CONVERSION_KILNTOKILNRT_ADVANCEGATHERS_H
