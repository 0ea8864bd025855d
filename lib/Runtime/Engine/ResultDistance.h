//===- ResultDistance.h - Difference of two results -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// The difference of two results of one command with the same operands, and an
// upper bound on the difference that rounding can cause: 8 sqrt(L) eps |x| in
// the Euclidean norm, where L is the length of the longest sum. For a GEMM, L
// is k, and |x| is the maximum of the norm of the result and of |A| |B| /
// sqrt(L), the norm that the result would have without cancellation. Types
// narrower than f32 are accumulated in f32. For them, eps is that of f32, and
// the bound increases by the norm of the result times the eps of the narrow
// type, because each element of the result is rounded to that type.
//
// Subnormal numbers count as zero, because a CPU flushes them and a GPU may
// not.
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
  bool same = true; ///< True if all bits are equal.
  bool raw = false; ///< True if the element type is unknown.
  double error = 0;
  double allowed = 0;

  bool sameButSubnormals() const { return !same && error == 0; }
  /// Returns error / allowed; infinity for a NaN, or if `allowed` is 0 and
  /// `error` is not.
  double share() const {
    if (error == 0)
      return 0;
    double ratio = error / allowed;
    return std::isnan(ratio) ? INFINITY : ratio;
  }
};

/// Compares `bytes` bytes of floating-point elements. Elements that are
/// unchanged from `before` in both results are ignored. Bytes after the last
/// whole element must be equal.
ResultDistance tensorDistance(ElementType type, const char *before,
                              const char *own, const char *other, int64_t bytes,
                              double longestSum);

/// Compares bytes of unknown type, which must be equal.
ResultDistance rawDistance(const char *own, const char *other, int64_t bytes);

/// Compares the results of a GEMM whose operands are still in the arenas.
/// `other` is a second copy of the slot that contains the result. Bytes of the
/// slot outside the result are ignored.
ResultDistance gemmDistance(const Command &command, int64_t iteration,
                            const Arenas &arenas, const Slot &slot,
                            const char *other);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_RESULTDISTANCE_H
