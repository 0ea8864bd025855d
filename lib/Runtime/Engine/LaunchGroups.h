//===- LaunchGroups.h - Checks of launch groups -----------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The launches of a group run concurrently. All of them launch the same kernel
// with the same grid and the same immediates. If one launch of a group writes a
// byte in any execution, no other launch of the group reads or writes that byte
// in any execution.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_LAUNCHGROUPS_H
#define KILN_LIB_RUNTIME_ENGINE_LAUNCHGROUPS_H

#include "SegmentReader.h"
#include "kiln/Runtime/Engine/Program.h"

namespace kiln::runtime {

/// Checks the groups of concurrent launches in `program`, whose commands were
/// read from `segments`, and sets Command::member. Also checks that all
/// launches of a kernel in `program` and in the programs of `file` have the
/// same parameters.
void checkGroups(const SegmentReader &segments, const ProgramFile &file,
                 Program &program);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_LAUNCHGROUPS_H
