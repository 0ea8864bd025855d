//===- LaunchGroups.h - Checks launches that may be one ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The members of a group run at once: they are launches of one kernel of equal
// size with equal immediates, and none of them writes what another one reads or
// writes, in any two iterations of the loop around them.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_LAUNCHGROUPS_H
#define KILN_LIB_RUNTIME_ENGINE_LAUNCHGROUPS_H

#include "SegmentReader.h"
#include "kiln/Runtime/Engine/Program.h"

namespace kiln::runtime {

/// Checks the groups of `program`, whose commands were read from `segments`,
/// and that a kernel has the same parameters in all launches, those of the
/// programs in `file` included. Numbers the members.
void checkGroups(const SegmentReader &segments, const ProgramFile &file,
                 Program &program);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_LAUNCHGROUPS_H
