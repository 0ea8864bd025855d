//===- MemberTable.h - The arguments of many launches in one ----*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// A GPU kernel that several launches in a row may share has a table for its
// first parameter, passed by value: the addresses of all arguments of the first
// member, then of the second, ... Block (x, y) works on member y. The compiler
// chooses how many members there is room for, the runtime fills a part of it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_RUNTIME_ENGINE_MEMBERTABLE_H
#define KILN_RUNTIME_ENGINE_MEMBERTABLE_H

#include <cstdint>

namespace kiln {

/// Of a GPU kernel, which is what all drivers and GPUs take.
inline constexpr int64_t kernelParameterBytes = 4096;

/// How many members of `args` arguments a table can have beside the immediates
/// and the number of units.
inline int64_t maxTableMembers(int64_t args, int64_t immediates) {
  int64_t words = kernelParameterBytes / 8 - immediates - 1;
  return args > 0 && words > 0 ? words / args : 0;
}

} // namespace kiln

#endif // KILN_RUNTIME_ENGINE_MEMBERTABLE_H
