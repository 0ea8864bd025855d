//===- ResultDistance.h - Difference of two results -------------*- C++ -*-===//
//
// Part of kiln, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
//===----------------------------------------------------------------------===//
//
// Computes the difference between two results of one command for the same
// operands, and an upper bound on the difference that rounding can cause. Both
// are Euclidean norms. The bound is 8 sqrt(L) eps |x|, where L is the length of
// the longest sum, eps is the distance from 1 to the next number of the element
// type, and |x| is the norm of the result. For a GEMM C = A B, L = k, and |x| =
// max(|C|, |A| |B| / sqrt(L)); the second term is the norm that C would have
// without cancellation. Types narrower than f32 are accumulated in f32. For
// such a type, eps is the eps of f32, and the bound increases by the norm of
// the result times the eps of the narrow type, because each element of the
// result is rounded to that type.
//
// Subnormal numbers count as zero, because a CPU flushes them to zero and a GPU
// may not.
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
  bool same = true; ///< True if all bits of the two results are equal.
  bool raw = false; ///< True if the type of the elements is unknown.
  double error = 0;
  double allowed = 0;

  bool sameButSubnormals() const { return !same && error == 0; }
  /// Returns error / allowed. Returns infinity if the quotient is NaN, or if
  /// `allowed` is 0 and `error` is not.
  double share() const {
    if (error == 0)
      return 0;
    double ratio = error / allowed;
    return std::isnan(ratio) ? INFINITY : ratio;
  }
};

/// Compares two results of `bytes` bytes, `own` and `other`, as floating-point
/// elements. `before` are the contents before the command; elements that are
/// equal to `before` in both results are ignored. If the bytes after the last
/// whole element differ, the error is infinite.
ResultDistance tensorDistance(ElementType type, const char *before,
                              const char *own, const char *other, int64_t bytes,
                              double longestSum);

/// Compares two results of unknown type. The error is 0 if all bytes are equal,
/// and otherwise infinite.
ResultDistance rawDistance(const char *own, const char *other, int64_t bytes);

/// Compares two results of an execution of a GEMM: the contents of `slot` in
/// the arenas, and `other`, which has the layout of `slot`. The operands must
/// still be in the arenas. Bytes of the slot outside the result matrices are
/// ignored.
ResultDistance gemmDistance(const Command &command, const abi::SegmentRun &run,
                            const Arenas &arenas, const Slot &slot,
                            const char *other);

} // namespace kiln::runtime

#endif // KILN_LIB_RUNTIME_ENGINE_RESULTDISTANCE_H
