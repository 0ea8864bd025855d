//===- LaunchGroups.h - Launches that a gpu runs as one ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A step ends with an update of every parameter, many of them small. A gpu
// begins a launch in some microseconds, in which it could have updated a
// hundred small tensors. So launches of the same kernel that do not depend on
// each other are made neighbours and marked as a group, which the runtime
// launches at once. Each stays a command of its own.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_TARGET_COMMON_LAUNCHGROUPS_H
#define KILN_TARGET_COMMON_LAUNCHGROUPS_H

#include "kiln/Dialect/KilnRT/IR/KilnRT.h"

namespace kiln {

/// Reorders the launches of the programs in `scheduled` and marks groups. No
/// buffer moves; the lifetimes of slots follow the new order. Fails where the
/// result is no valid schedule.
llvm::LogicalResult groupLaunches(mlir::ModuleOp scheduled);

/// Members of the group that begins with a launch; 1: none does.
int64_t getGroupSize(rt::LaunchOp launch);

/// Of the groups of a kernel; 0: it has none, and no table of members.
int64_t getLargestGroup(rt::KernelOp kernel);

} // namespace kiln

#endif // KILN_TARGET_COMMON_LAUNCHGROUPS_H
