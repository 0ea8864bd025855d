//===- Fusion.h - How far ops move to be fused ------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shared by what fuses and what foresees it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_FUSION_H
#define KILN_DIALECT_KILN_TRANSFORMS_FUSION_H

#include <cstdint>

namespace kiln {

/// An op joins a group that merely reads the same tensor only if it is this
/// close, in ops, and none moves further up than this: results computed far
/// from where they are used lengthen lifetimes.
constexpr int64_t kNearby = 16;

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_FUSION_H
