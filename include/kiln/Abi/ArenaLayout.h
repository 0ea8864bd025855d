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

/// Slots, scratch memory and workspaces begin at multiples of this number of
/// bytes: vector loads and cache lines have 64.
inline constexpr int64_t slotAlignment = 64;

} // namespace kiln::abi

#endif // KILN_ABI_ARENALAYOUT_H
