//===- Fusion.h - Distance limit of fusion ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The distance limit that the pass that forms dispatches applies. The cost
// model uses the same limit to predict the dispatches.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_FUSION_H
#define KILN_DIALECT_KILN_TRANSFORMS_FUSION_H

#include <cstdint>

namespace kiln {

/// Maximum distance in ops for fusion. An op may join a group that computes one
/// of its operands, or a group that reads one of its operands. In the second
/// case, the group must be within this distance. No op moves up by a larger
/// distance, because a result that is computed long before its use has a long
/// lifetime.
constexpr int64_t kNearby = 16;

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_FUSION_H
