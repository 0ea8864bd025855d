//===- MemberTable.h - Argument table of a launch group ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Several consecutive launches of one GPU kernel may form a group, which runs
// as one launch. Each launch of the group is called a member. The kernel's
// first parameter is then a table, passed by value. The table has one row per
// member, which contains the addresses of the member's arguments. Block (x, y)
// computes member y. The compiler chooses the maximum number of rows, and the
// runtime fills one row per member.
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_MEMBERTABLE_H
#define KILN_ABI_MEMBERTABLE_H

#include <cstdint>

namespace kiln::abi {

/// The maximum total size in bytes of a kernel's parameters that all drivers
/// and GPUs support.
inline constexpr int64_t kernelParameterBytes = 4096;

/// Returns the maximum number of launches that can run as one launch: the
/// addresses of their arguments, `args` for each launch, must fit into the
/// kernel parameters together with `immediates` integers and the number of work
/// units.
inline int64_t maxTableMembers(int64_t args, int64_t immediates) {
  int64_t words = kernelParameterBytes / 8 - immediates - 1;
  return args > 0 && words > 0 ? words / args : 0;
}

} // namespace kiln::abi

#endif // KILN_ABI_MEMBERTABLE_H
