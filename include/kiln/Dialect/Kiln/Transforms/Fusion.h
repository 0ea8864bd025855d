//===- Fusion.h - Distance limit of fusion ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The maximum distance between ops that are fused. The pass that forms
// dispatches and the cost model, which predicts the dispatches, use the same
// limit.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_FUSION_H
#define KILN_DIALECT_KILN_TRANSFORMS_FUSION_H

#include <cstdint>

namespace kiln {

/// The maximum number of ops by which fusion moves an op to an earlier position
/// in program order. The limit keeps lifetimes short: if an op moves to a much
/// earlier position, the result of the op is computed long before it is read.
constexpr int64_t kNearby = 16;

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_FUSION_H
