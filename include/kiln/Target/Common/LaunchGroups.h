//===- LaunchGroups.h - Sizes of launch groups ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The pass kiln-group-launches groups launches of one kernel, and the runtime
// runs each group as one launch. These functions query the groups of a
// scheduled module.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_LAUNCHGROUPS_H
#define KILN_TARGET_COMMON_LAUNCHGROUPS_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

namespace kiln {

/// Returns the size of the group that starts at a launch, or 1 if no group
/// starts there.
int64_t getGroupSize(rt::LaunchOp launch);

/// Returns the number of launches in the largest launch group of a kernel, or 0
/// if no launches of the kernel are grouped. In the latter case, the kernel has
/// no table for the arguments of a group.
int64_t getLargestGroup(rt::KernelOp kernel);

} // namespace kiln

#endif // KILN_TARGET_COMMON_LAUNCHGROUPS_H
