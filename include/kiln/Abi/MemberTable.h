//===- MemberTable.h - Argument table of a launch group ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Several successive launches of one GPU kernel may be a group, which is
// started as one launch. The kernel's first parameter is then a table that is
// passed by value: the addresses of all arguments of the first member, then of
// the second, and so on. Block (x, y) works on member y. The compiler chooses
// the capacity of the table, and the runtime fills as many rows as the group
// has members.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_MEMBERTABLE_H
#define KILN_ABI_MEMBERTABLE_H

#include <cstdint>

namespace kiln::abi {

/// The parameter bytes of a GPU kernel that all drivers and GPUs support.
inline constexpr int64_t kernelParameterBytes = 4096;

/// The largest number of members of `args` arguments that fit beside the
/// immediates and the number of units.
inline int64_t maxTableMembers(int64_t args, int64_t immediates) {
  int64_t words = kernelParameterBytes / 8 - immediates - 1;
  return args > 0 && words > 0 ? words / args : 0;
}

} // namespace kiln::abi

#endif // KILN_ABI_MEMBERTABLE_H
