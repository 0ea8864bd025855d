//===- ArenaLayout.h - Alignment of memory in an arena ----------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//

#ifndef KILN_ABI_ARENALAYOUT_H
#define KILN_ABI_ARENALAYOUT_H

#include <cstdint>

namespace kiln::abi {

/// Alignment in bytes of tensors, scratch memory and workspaces in an arena:
/// the size of a cache line, which is also the size of the widest vector
/// register.
inline constexpr int64_t slotAlignment = 64;

} // namespace kiln::abi

#endif // KILN_ABI_ARENALAYOUT_H
