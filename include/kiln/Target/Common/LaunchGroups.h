//===- LaunchGroups.h - Sizes of groups of launches -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// kiln-group-launches makes groups of launches of one kernel, which the runtime
// starts as one. These functions read the groups of a scheduled module.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_LAUNCHGROUPS_H
#define KILN_TARGET_COMMON_LAUNCHGROUPS_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

namespace kiln {

/// Members of the group that begins with a launch; 1: none does.
int64_t getGroupSize(rt::LaunchOp launch);

/// Of the groups of a kernel; 0: it has none, and no table of members.
int64_t getLargestGroup(rt::KernelOp kernel);

} // namespace kiln

#endif // KILN_TARGET_COMMON_LAUNCHGROUPS_H
