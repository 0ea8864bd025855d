//===- ResultDistance.h - How far two results are apart ---------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Two results of one command on the same bytes, and what rounding allows: a
// distance of 8 sqrt(L) eps |x| in Euclidean norm, for L the longest sum. Of a
// product L is its inner extent, and |x| the larger of its norm and of
// |A| |B| / sqrt(L), which is what it would be if no terms cancelled. Sums of
// narrow types are in f32; that they are rounded at the end may move each
// element by one eps of its type.
//
// Numbers below the smallest normal one count as zeros: a cpu flushes them, a
// GPU need not.
//
//===----------------------------------------------------------------------===//

#ifndef KILN_LIB_RUNTIME_ENGINE_RESULTDISTANCE_H
#define KILN_LIB_RUNTIME_ENGINE_RESULTDISTANCE_H

#include "Arena.h"
#include "kiln/Runtime/Engine/Program.h"

#include <cmath>
#include <cstdint>

namespace kiln::runtime {

struct ResultDistance {
  bool same = true; ///< All bits.
  bool raw = false; ///< Of bytes of no known type.
  double error = 0;
  double allowed = 0;

  bool sameButSubnormals() const { return !same && error == 0; }
  /// error / allowed; infinite where nothing is allowed, or with a NaN.
  double share() const {
    if (error == 0)
      return 0;
    double ratio = error / allowed;
    return std::isnan(ratio) ? INFINITY : ratio;
  }
};

/// Of `bytes` bytes of elements of a type of floating point. Elements that both
/// have left as they were `before` do not count: they are no result. What is
/// left behind the last whole element must be the same.
ResultDistance tensorDistance(ElementType type, const char *before,
                              const char *own, const char *other, int64_t bytes,
                              double longestSum);

/// Of bytes of no known type: rounding cannot be told from a fault.
ResultDistance rawDistance(const char *own, const char *other, int64_t bytes);

/// Of the result of a product, whose operands are still in their places.
/// `other` is the slot of its result; what lies around the result in there does
/// not count.
ResultDistance gemmDistance(const Command &command, int64_t iteration,
                            const Arenas &arenas, const Slot &slot,
                            const char *other);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_RESULTDISTANCE_H
