//===- Fusion.h - Distance limit of fusion ----------------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Shared by the pass that forms dispatches and the cost model that predicts it.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_DIALECT_KILN_TRANSFORMS_FUSION_H
#define KILN_DIALECT_KILN_TRANSFORMS_FUSION_H

#include <cstdint>

namespace kiln {

/// Maximum distance in ops for fusion. An op joins a group that only reads the
/// same tensor if it is within this distance, and no op moves up further than
/// this. A result that is computed far before its use has a long lifetime.
constexpr int64_t kNearby = 16;

} // namespace kiln

#endif // KILN_DIALECT_KILN_TRANSFORMS_FUSION_H
