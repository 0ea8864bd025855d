//===- Fusion.h - Distance limit of fusion ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The maximum distance over which ops are fused. The pass that forms dispatches
// and the cost model, which predicts the dispatches, use the same limit.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_FUSION_H
#define KILN_DIALECT_KILN_TRANSFORMS_FUSION_H

#include <cstdint>

namespace kiln {

/// Maximum distance in ops for fusion. An op may join a group that computes one
/// of its operands, or a group that reads one of its operands. In the second
/// case, the group must be within this distance. The limit keeps lifetimes
/// short: an op that moves up by a large distance computes its result long
/// before the result is used.
constexpr int64_t kNearby = 16;

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_FUSION_H
